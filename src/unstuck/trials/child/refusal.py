"""Why a target cannot be used."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818  (it is a reason, not an error)
    """What is the matter with it, and what to do."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(what)
        self.what = what
        self.do = do
