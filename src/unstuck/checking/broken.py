"""What ends the reading of something: damage, in words."""

from __future__ import annotations


class Broken(Exception):  # noqa: N818 - what it means is not decided where it is raised
    """There is no more to be had. Kind, words and offset as in `Fault`."""

    def __init__(self, kind: str, what: str, at: int | None = None) -> None:
        super().__init__(what)
        self.kind, self.what, self.at = kind, what, at
