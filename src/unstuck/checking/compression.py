"""Compressed files: which kind, by their first bytes, and what they hold, in pieces of bounded size."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from .noting import Notes

MAGIC = {
    b"\x1f\x8b\x08": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x04\x22\x4d\x18": "lz4",
}
PIECE = 1 << 18


def compression_of(head: bytes) -> str:
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), "")


class Inflated:
    """What a compressed file holds. Damage ends it, and is noted."""

    def __init__(self, kind: str, first: bytes, more: Callable[[int], bytes], notes: Notes) -> None:
        self._kind, self._more, self._notes = kind, more, notes
        self._held = first
        self._machine = zlib.decompressobj(wbits=31)
        self._given = 0
        self._over = False

    def read(self, count: int) -> bytes:
        while not self._over:
            data = self._machine.decompress(self._held or self._more(PIECE), count)
            self._held = self._machine.unconsumed_tail
            if data:
                return data
            if self._machine.eof or not self._held:
                self._over = True
        return b""

    def readinto(self, into: memoryview) -> int:
        data = self.read(len(into))
        into[: len(data)] = data
        return len(data)
