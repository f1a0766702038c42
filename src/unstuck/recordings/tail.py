"""Follows one recording while it is written: what is new since the last look, at next to no cost and without numpy."""

from __future__ import annotations

import json
import re
import struct
from typing import Any

from ..inside import format as f
from .decoder import AMOUNT, KINDS, MOMENT, RECORD, OpenRecording, Record, pread

FEW, MANY = 32, 4096  # records that are read first, and the most at a time if all of these were new
STRINGS = 1024  # that are remembered


class Ring:
    """One of a recording's two rings."""

    def __init__(self, fd: int, offset: int, count: int, kinds: tuple[int, ...]) -> None:
        self.missed = 0  # records that were overwritten before they were read
        self._fd, self._offset, self._count = fd, offset, count
        self._next = 1
        self.only(kinds)

    def only(self, kinds: tuple[int, ...]) -> None:
        """By the lowest byte of each record's kind, of a whole chunk at once: most records are none of ours."""
        self._wanted = re.compile(b"[" + b"".join(re.escape(bytes([kind])) for kind in kinds) + b"]")

    def new(self) -> list[Record]:
        """Raises OSError or ValueError where the file is no longer what it was."""
        found: list[Record] = []
        chunk = FEW
        for _ in range(self._count):  # whoever writes faster than this is read on the next time
            slot = self._next % self._count
            many = min(chunk, self._count - slot)
            data = self._read(slot, many)
            good = self._good(data, many)
            found += self._records(data, good)
            self._next += good
            if good < many and not self._overtaken(data[good * RECORD :]):
                break
            chunk = min(chunk * 4, MANY)
        return found

    def _read(self, slot: int, many: int) -> bytes:
        """Words of one read may come from different moments: a record that two reads agree on is whole."""
        at, size = self._offset + slot * RECORD, many * RECORD
        first, data = pread(self._fd, size, at), pread(self._fd, size, at)
        if first == data:
            return data
        same = next(one for one in range(0, size, RECORD) if first[one : one + RECORD] != data[one : one + RECORD])
        return data[:same]

    def _good(self, data: bytes, many: int) -> int:
        """How many records are there and are next in turn."""
        found = memoryview(data).cast("Q")[:: f.RING_WORDS].tolist()
        wanted = range(self._next, self._next + many)
        return next((at for at, (one, due) in enumerate(zip(found, wanted, strict=False)) if one != due), len(found))

    def _records(self, data: bytes, good: int) -> list[Record]:
        if not good:
            return []
        kinds = bytes(memoryview(data)[f.R_KIND * f.WORD : good * RECORD : RECORD])
        unpack = struct.Struct("<Q6q").unpack_from
        records = (
            Record(*unpack(data, found.start() * RECORD + f.R_KIND * f.WORD)) for found in self._wanted.finditer(kinds)
        )
        return [one for one in records if one.kind < KINDS and 0 <= one.start < MOMENT and 0 <= one.duration < AMOUNT]

    def _overtaken(self, data: bytes) -> bool:
        """The writer has come round. Go on with the oldest records that will still be there in a moment."""
        if len(data) < RECORD or int.from_bytes(data[: f.WORD], "little") <= self._next:
            return False
        everything = pread(self._fd, self._count * RECORD, self._offset)
        head = max(memoryview(everything).cast("Q")[:: f.RING_WORDS].tolist())
        following = max(head - self._count + 1 + self._count // 8, self._next)
        self.missed += following - self._next
        self._next = following
        return True


class Tail(OpenRecording):
    """One process's recording, held open."""

    path: str

    def __init__(self, path: str, kinds: tuple[int, ...], rare: tuple[int, ...]) -> None:
        """Raises OSError or ValueError where there is nothing to read yet."""
        super().__init__(path)
        self.ring = Ring(self._fd, *self.sections[f.S_RING], kinds)
        self.notes = Ring(self._fd, *self.sections[f.S_NOTES], rare)
        self._strings: dict[int, str] = {}
        self._said = 0

    def string(self, number: int) -> str:
        known = self._strings.get(number)
        if known is None:
            known = super().string(number)
            if len(self._strings) < STRINGS:
                self._strings[number] = known
        return known

    def facts(self, number: int) -> dict[str, Any]:
        """Facts that were written as JSON, by name; none where there was no room for them, or they are damaged."""
        try:
            known = json.loads(self.string(number) or "{}")
        except (ValueError, RecursionError):
            return {}
        return known if isinstance(known, dict) else {}

    def new_last_words(self) -> list[dict[str, Any]]:
        """Exceptions that were written down since the last look."""
        dated = [said for said in self.last_words() if isinstance(said.get("at"), int)]
        new = [said for said in dated if said["at"] > self._said]
        self._said = max([self._said, *(said["at"] for said in dated)])
        return new
