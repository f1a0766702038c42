"""Several stretches of a file, read as if they were one."""

from __future__ import annotations

from typing import Any

from .messages import read_at


class Spliced:
    """So that a reader of streams can be started again behind what it cannot read: what it knew by then comes first."""

    closed = False

    def __init__(self, source: Any, stretches: list[tuple[int, int]]) -> None:
        self._source, self._left = source, stretches

    def read(self, count: int) -> bytes:
        found: list[bytes] = []
        while count and self._left:
            start, end = self._left[0]
            data = read_at(self._source, start, min(count, end - start))
            found.append(data)
            count -= len(data)
            self._left[0] = start + len(data), end
            if len(self._left) > 1 and start + len(data) == end:
                self._left.pop(0)
            elif not data:
                break
        return b"".join(found)

    def tell(self) -> int:
        """Where that is in the file."""
        return self._left[0][0]
