"""A line of code."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of code."""

    file: str
    line: int = 0
    function: str = ""
