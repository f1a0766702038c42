"""The one error type for people."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right: what happened, and what to do about it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy
