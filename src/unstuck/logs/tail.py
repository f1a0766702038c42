"""Follows one recording while it is written: what is new since the last look, at next to no cost and without numpy."""

from __future__ import annotations

import json
import os
import re
import struct
from pathlib import Path
from typing import Any, NamedTuple

from ..inside import format as f
from ..inside.format import Kind
from ..safe_files import open_plain

FEW, MANY = 32, 4096  # records that are read first, and the most at a time if all of these were new
RECORD = f.RING_WORDS * f.WORD
AT_FIRST = 8  # board entries that are read; all, where these are in use
STRINGS = 1024  # that are remembered
LOADERS = (Kind.LOADER, Kind.ITERATOR, Kind.WAIT, Kind.BODY, Kind.PASS_END, Kind.SHUTDOWN)
FETCHES = (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE, Kind.IDLE)
LARGEST = 4 * f.MAIN_LAYOUT.size()  # bytes of a recording, for years to come
UNITS = (f.BOARD_ENTRY, f.TOTAL_WORDS * f.WORD, RECORD, RECORD, 1, 1)  # bytes of an entry, by section
KINDS, MOMENT, AMOUNT = 1 << 8, 1 << 62, 1 << 56  # what a kind, a time and a duration are always below


class Opened(NamedTuple):
    """A recording that is held open while it is written."""

    fd: int
    header: tuple[int, ...]
    sections: list[tuple[int, int]]  # offset and count of each, all inside of the file


def open_recording(path: str | Path) -> Opened:
    """Raises OSError or ValueError where there is nothing to read yet, or never will be."""
    fd = open_plain(path, largest=LARGEST)
    try:
        return _opened(path, fd)
    except BaseException:
        os.close(fd)
        raise


def _opened(path: str | Path, fd: int) -> Opened:
    header = struct.unpack(f"<{f.H_WORDS}Q", pread(fd, f.H_WORDS * f.WORD, 0))
    if header[f.H_MAGIC] != f.MAGIC:  # it has been made, but not filled in yet
        raise ValueError(path)
    pairs = header[f.H_SECTIONS : f.H_SECTIONS + 12]
    sections = list(zip(pairs[0::2], pairs[1::2], strict=True))
    size = os.fstat(fd).st_size
    for (offset, count), unit in zip(sections, UNITS, strict=True):
        if offset % f.WORD or offset < f.HEADER_SIZE or not count or offset + count * unit > size:
            raise ValueError(f"{path} is damaged: a section lies outside the file")
    if header[f.H_PID] >= 1 << 31 or max(header[f.H_MONOTONIC], header[f.H_WALL]) > MOMENT:
        raise ValueError(f"{path} is damaged: no process has such a header")
    return Opened(fd, header, sections)


def pread(fd: int, size: int, at: int) -> bytes:
    """All of it, or ValueError: somebody has cut the file short since it was opened."""
    data = os.pread(fd, size, at)
    if len(data) < size:
        raise ValueError("it was cut short")
    return data


class Record(NamedTuple):
    """One event."""

    kind: int
    key: int
    start: int
    duration: int
    a: int
    b: int
    c: int

    @property
    def end(self) -> int:
        return self.start + self.duration


class Entry(NamedTuple):
    """One entry of the board."""

    kind: int
    key: int
    since: int
    a: int
    b: int
    c: int
    d: int
    text: str


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


class Tail:
    """One process's recording, held open."""

    def __init__(self, path: str, kinds: tuple[int, ...], rare: tuple[int, ...]) -> None:
        """Raises OSError or ValueError where there is nothing to read yet."""
        self.path = path
        self._fd, self.header, self._sections = open_recording(path)
        self.ring = Ring(self._fd, *self._sections[f.S_RING], kinds)
        self.notes = Ring(self._fd, *self._sections[f.S_NOTES], rare)
        self._entries = AT_FIRST
        self._strings: dict[int, str] = {}
        self._said = 0

    def close(self) -> None:
        os.close(self._fd)

    def look(self) -> tuple[int, ...]:
        """Read the header anew."""
        self.header = struct.unpack(f"<{f.H_WORDS}Q", pread(self._fd, f.H_WORDS * f.WORD, 0))
        return self.header

    def word(self, number: int) -> int:
        """One word of the header, now."""
        return int.from_bytes(pread(self._fd, f.WORD, number * f.WORD), "little")

    def seconds(self, moment: int) -> float:
        """A stamp as seconds since the epoch."""
        return (self.header[f.H_WALL] + moment - self.header[f.H_MONOTONIC]) / 1e9

    def string(self, number: int) -> str:
        known = self._strings.get(number)
        if known is None:
            offset, size = self._sections[f.S_STRINGS]
            if not 0 < number <= size:
                return ""
            length = int.from_bytes(os.pread(self._fd, f.WORD, offset + number - 1), "little")
            data = os.pread(self._fd, min(length, max(size - number + 1 - f.WORD, 0)), offset + number - 1 + f.WORD)
            known = data.decode("utf-8", "replace")
            if len(self._strings) < STRINGS:
                self._strings[number] = known
        return known

    def board(self) -> list[Entry]:
        """Entries that two reads agree on; the words in front of them may change at any time."""
        offset, count = self._sections[f.S_BOARD]
        size = min(self._entries, count) * f.BOARD_ENTRY
        first, data = pread(self._fd, size, offset), pread(self._fd, size, offset)
        if data[size - f.BOARD_ENTRY :][: f.WORD] != bytes(f.WORD):
            self._entries = count
        found = (self._entry(first, data, at) for at in range(0, size, f.BOARD_ENTRY))
        return [one for one in found if one is not None]

    def _entry(self, first: bytes, data: bytes, at: int) -> Entry | None:
        live = struct.unpack_from("<8Q", data, at)
        copy = at + 8 * f.WORD + (live[0] & 1) * f.BOARD_COPY
        whole = data[copy : copy + f.BOARD_COPY]
        if not live[0] or data[at : at + f.WORD] != first[at : at + f.WORD] or whole != first[copy:][: len(whole)]:
            return None
        kind, key, since, a, b, c, d, length = struct.unpack_from("<3Q4qQ", whole)
        text = whole[8 * f.WORD :][: min(length, f.BOARD_TEXT)].decode("utf-8", "replace")
        moment, phase = live[f.L_PHASE] >> 2, live[f.L_PHASE] & 3
        if since > MOMENT:
            return None
        if not moment or moment < since:
            return Entry(kind, key, since, a, b, c, d, text)
        if kind in LOADERS:
            batches = live[f.L_ONE]
            return Entry((Kind.WAIT, Kind.BODY)[phase & 1], key, moment, a + batches - c, b, batches, live[f.L_TWO], "")
        index = struct.unpack_from("<q", data, at + f.L_ONE * f.WORD)[0]
        return Entry(FETCHES[phase], key, moment, live[f.L_TWO], live[f.L_THREE], index, 0, "")

    def last_words(self) -> list[dict[str, Any]]:
        """Exceptions that were written down since the last look."""
        offset, size = self._sections[f.S_LAST_WORDS]
        length = self.header[f.H_LAST_WORDS]
        if length == 0 or length > size:
            return []
        try:
            said = json.loads(os.pread(self._fd, length, offset))
            new = [one for one in said if int(one.get("at", 0)) > self._said]
            self._said = max((int(one.get("at", 0)) for one in said), default=self._said)
        except (
            ValueError,
            AttributeError,
            TypeError,
            RecursionError,
            OverflowError,
        ):  # it is being replaced: next time
            return []
        return new
