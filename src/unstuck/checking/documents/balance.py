"""A JSON document that is too long to be held: whether all that is opened in it is closed at its end."""

from __future__ import annotations

import re

INSIDE = rb'[^"\\]*(?:\\.[^"\\]*)*"'
END = re.compile(INSIDE, re.DOTALL)
STRING = re.compile(b'"' + INSIDE, re.DOTALL)


class Balance:
    """Fed with one piece after the other."""

    def __init__(self) -> None:
        self._open = 0
        self._string = self._escaped = False

    def add(self, data: bytes) -> None:
        if self._escaped:
            data, self._escaped = data[1:], False
        if self._string:
            end = END.match(data) if b'"' in data else None
            self._string = end is None
            data = data[end.end() :] if end is not None else data
        body = data.rstrip(b"\\")
        if not self._string:
            # A further quote ends a string that is open, or stays: without it, hostile text is tried at every quote.
            bare = STRING.sub(b"", body + b'"')
            self._open += sum(map(bare.count, (b"{", b"["))) - sum(map(bare.count, (b"}", b"]")))
            self._string = not bare.endswith(b'"')
        self._escaped = self._string and (len(data) - len(body)) % 2 == 1

    def wrong(self) -> str:
        """What is, in a few words, or nothing."""
        if self._string:
            return "it ends within a string"
        return f"it ends with {self._open:,} brackets open" if self._open else ""
