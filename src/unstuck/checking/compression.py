"""Compressed files: which kind, by their first bytes, and what they hold, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Callable

from ..wording.text import size
from .broken import Broken
from .inflating import Source, pieces
from .noting import Notes

MAGIC = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
}
SKIPPABLE = (
    b"\x2a\x4d\x18"  # behind a byte of 0x50 to 0x5f: a frame of zstd and lz4 that holds nothing; pzstd begins so
)
ROOM = 1 << 30  # nothing of up to this size is a bomb,
RATIO = 250  # nor what grows less: text becomes 20 times smaller, logs 100 times; bombs begin at 1,000


def compression_of(head: bytes) -> str:
    if head[1:4] == SKIPPABLE and head[0] >> 4 == 5:
        head = head[8 + int.from_bytes(head[4:8], "little") :]
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")


class Inflated:
    """What a compressed file holds, as far as it can be had. Damage ends it, and is noted.

    Raises `inflating.Missing` where no library for this kind is there.
    """

    def __init__(self, kind: str, first: bytes, more: Callable[[int], bytes], notes: Notes) -> None:
        self._kind, self._notes = kind, notes
        self._source = Source(first, more)
        self._pieces = pieces(kind, self._source)
        self._left = memoryview(b"")
        self._given = 0
        self._over = False

    def read(self, count: int) -> bytes:
        """Up to so many bytes; none at the end."""
        self._refill()
        data = bytes(self._left[:count])
        self._left = self._left[count:]
        return data

    def readinto(self, into: memoryview) -> int:
        self._refill()
        have = min(len(self._left), len(into))
        into[:have] = self._left[:have]
        self._left = self._left[have:]
        return have

    def _refill(self) -> None:
        if self._left or self._over:
            return
        try:
            self._left = memoryview(next(self._pieces, b""))
        except Broken as broken:
            self._end(broken.kind, broken.what)
        self._given += len(self._left)
        if not self._over and self._given > ROOM and self._given > RATIO * self._source.taken:
            self._left = memoryview(b"")
            what = f"{self._source.taken:,} bytes of {self._kind} become more than {size(self._given)}: a bomb"
            self._end("hostile", f"{what}, which is not read on")

    def _end(self, kind: str, what: str) -> None:
        # Only gzip gives all that stands before damage, and nothing of what comes of it.
        known = kind != "damaged" or self._kind == "gzip"
        self._notes.fault(kind, what, at=self._given if known else None)
        self._over = self._notes.broken = True
        if self._notes.wish.algorithm:  # a digest is of all bytes of the file
            while self._source.take():
                pass
