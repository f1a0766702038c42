"""What is noted while one file is read: faults and counts, bounded however much is wrong."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable
from typing import Any

import msgspec

from ..model.checked import DataFile, Fault, Texts

MOST = 50  # faults of one kind that are kept with all they say; the rest is counted
NAME = 300  # characters of a name: hostile ones may have millions


class Wish(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a file is to be read."""

    decode: bool = False  # really decode images, JSON, arrays
    digests: bool = False  # CRC-32 of the file, and of each member
    whole: bool = True  # False: its ends only


class Notes:
    """The file that is being read."""

    def __init__(self, path: str, size: int, wish: Wish, progress: Callable[[int], None] = lambda _: None) -> None:
        self.path, self.size, self.wish = path, size, wish
        self.read = 0
        self.digest: int | None = 0 if wish.digests else None
        self.digests = array("I")
        self._progress = progress
        self._faults: list[Fault] = []
        self._counts: dict[str, int] = {}
        self._facts: dict[str, Any] = {}
        self._texts: list[Texts] = []

    def fault(self, kind: str, what: str, *, member: str = "", sample: str = "", **rest: int | None) -> None:
        """Something is wrong; see `Fault`."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= MOST:
            self._faults.append(Fault(kind, what, member=clean(member), sample=clean(sample), **rest))

    def facts(self, **facts: Any) -> None:
        """Fields of `DataFile`."""
        self._facts.update(facts)

    def text(self, column: Texts) -> None:
        self._texts.append(column)

    def moved(self, count: int) -> None:
        """So many bytes of the file itself were read."""
        self.read += count
        self._progress(count)

    def member(self, *data: bytes | memoryview) -> None:
        """The digest of a member, for the manifest."""
        if self.wish.digests:
            crc = 0
            for piece in data:
                crc = zlib.crc32(piece, crc)
            self.digests.append(crc)

    @property
    def faulty(self) -> bool:
        return bool(self._counts)

    def file(self, **facts: Any) -> DataFile:
        return DataFile(
            self.path,
            size=self.size,
            read=self.read,
            whole=self.wish.whole,
            faults=self._faults,
            counts=self._counts,
            texts=self._texts,
            **{**self._facts, **facts},
        )


def clean(name: str) -> str:
    """A name as it can be printed: no control characters, no end of line, not endless."""
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape", "replace").decode() for one in name[:NAME]
    )
    return shown if len(name) <= NAME else f"{shown}…"
