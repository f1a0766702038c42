"""Reads one recording file, while it is being written or long after its process is gone."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UserError
from ..inside import format as f
from ..inside.format import Kind

Words = npt.NDArray[np.uint64]
ATTEMPTS = 20
LOADER_KINDS = (Kind.LOADER, Kind.ITERATOR, Kind.WAIT, Kind.BODY, Kind.PASS_END, Kind.SHUTDOWN)
FETCH_KINDS = (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE, Kind.IDLE)
UNITS = (f.BOARD_ENTRY, f.TOTAL_WORDS * f.WORD, f.RING_WORDS * f.WORD, f.RING_WORDS * f.WORD, 1, 1)  # by section


class Unfinished(Exception):  # noqa: N818  (a state, not an error)
    """A recording whose process was still opening it: it has no identity yet and says nothing."""


class BoardEntry:
    """What something is doing, and since when."""

    def __init__(self, words: list[int], text: str, live: list[int]) -> None:
        self.kind, self.key, self.since, self.a, self.b, self.c, self.d, _ = words
        self.text = text
        since, phase = live[f.L_PHASE] >> 2, live[f.L_PHASE] & 3
        if since >= self.since and since:
            self._overtake(since, phase, live)

    def _overtake(self, since: int, phase: int, live: list[int]) -> None:
        """The live words are newer than the copy."""
        self.since, self.text = since, ""
        if self.kind in LOADER_KINDS:
            self.kind = (Kind.WAIT, Kind.BODY)[phase & 1]
            self.a += live[f.L_ONE] - self.c  # batches of this pass: those of the copy, and those since
            self.c, self.d = live[f.L_ONE], live[f.L_TWO]
        else:
            self.kind = (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE, Kind.IDLE)[phase]
            self.c, self.a, self.b = live[f.L_ONE], live[f.L_TWO], live[f.L_THREE]


class Recording:
    """A consistent copy of one process's recording."""

    def __init__(self, path: Path) -> None:
        self.path = path
        data = _read(path)
        self._words: Words = np.frombuffer(data, dtype="<u8", count=len(data) // f.WORD)
        self._bytes = data
        header = self._words
        self.header: list[int] = header[: f.H_WORDS].tolist()
        pairs = header[f.H_SECTIONS : f.H_SECTIONS + 12].tolist()
        self._kept: dict[int, Words] = {}  # slots of a section that are whole
        self._sections = list(zip(pairs[0::2], pairs[1::2], strict=True))

    def seconds(self, moment: int) -> float:
        """A monotonic stamp as seconds since the epoch."""
        return (self.header[f.H_WALL] + moment - self.header[f.H_MONOTONIC]) / 1e9

    def ring(self) -> list[list[int]]:
        """Records of frequent events in the order they were written; a slot that was being written is left out."""
        return self._records(f.S_RING)

    def events(self, kind: int, key: int | None = None) -> Words:
        """Records of one kind of frequent events as rows of an array, in no order."""
        rows = self._valid(f.S_RING)
        wanted = rows[:, f.R_KIND] == kind
        if key is not None:
            wanted &= rows[:, f.R_KEY] == key
        found: Words = rows[wanted]
        return found

    def notes(self) -> list[list[int]]:
        """The same of rare events."""
        return self._records(f.S_NOTES)

    def newest(self) -> int:
        """The newest stamp on anything that was written, or 0."""
        ends = [int((rows[:, f.R_START] + rows[:, f.R_DURATION]).max()) for rows in self._both() if len(rows)]
        return max([*ends, *(entry.since for entry in self.board())], default=0)

    def _both(self) -> list[Words]:
        return [self._valid(f.S_RING), self._valid(f.S_NOTES)]

    def _records(self, section: int) -> list[list[int]]:
        valid = self._valid(section)
        ordered: list[list[int]] = valid[np.argsort(valid[:, f.R_SEQUENCE])].tolist()
        return ordered

    def _valid(self, section: int) -> Words:
        found = self._kept.get(section)
        if found is None:
            found = self._kept[section] = self._filtered(section)
        return found

    def _filtered(self, section: int) -> Words:
        offset, count = self._sections[section]
        start = offset // f.WORD
        slots = self._words[start : start + count * f.RING_WORDS].reshape(count, f.RING_WORDS)
        sequences = slots[:, f.R_SEQUENCE]
        valid: Words = slots[(sequences != 0) & (sequences % count == np.arange(count, dtype=np.uint64))]
        return valid

    def totals(self) -> dict[tuple[int, int], list[int]]:
        """Totals by kind and key, as sum, longest and buckets."""
        offset, count = self._sections[f.S_TOTALS]
        start = offset // f.WORD
        slots = self._words[start : start + count * f.TOTAL_WORDS].reshape(count, f.TOTAL_WORDS)
        return {(row[f.T_KIND], row[f.T_KEY]): row[f.T_SUM :] for row in slots.tolist() if row[f.T_KIND]}

    def board(self) -> list[BoardEntry]:
        offset, count = self._sections[f.S_BOARD]
        found = []
        for number in range(count):
            at = (offset + number * f.BOARD_ENTRY) // f.WORD
            version = int(self._words[at])
            if version:
                copy = at + 8 + (version & 1) * (f.BOARD_COPY // f.WORD)
                words = self._words[copy : copy + 8].tolist()
                start = (copy + 8) * f.WORD
                text = self._bytes[start : start + min(words[f.B_TEXT_LENGTH], f.BOARD_TEXT)]
                live = self._words[at : at + 8].tolist()
                found.append(BoardEntry(words, text.decode("utf-8", "replace"), live))
        return found

    def string(self, number: int) -> str:
        """An interned string; empty when the table was full."""
        offset, size = self._sections[f.S_STRINGS]
        used = min(self.header[f.H_STRINGS_USED], size)
        if not 0 < number <= used:
            return ""
        at = offset + number - 1
        length = int(self._words[at // f.WORD])
        return self._bytes[at + f.WORD : at + f.WORD + min(length, size)].decode("utf-8", "replace")

    def last_words(self) -> list[dict[str, Any]]:
        """The exceptions that were kept, oldest first."""
        offset, size = self._sections[f.S_LAST_WORDS]
        length = min(self.header[f.H_LAST_WORDS], size)
        try:
            said = json.loads(self._bytes[offset : offset + length]) if length else []
        except ValueError:
            return []
        return [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []


def _read(path: Path) -> bytes:
    """The file's bytes. What changed while it was read is read again; a ring slot that did is emptied.

    Words of one read may come from different moments, in any order: only what two reads agree on was read whole.
    """
    try:
        before, data = path.read_bytes(), bytearray(path.read_bytes())
        _validate(path, before)
        if data != before:
            _empty_torn_slots(before, data)
            with path.open("rb", buffering=0) as file:
                for parts in _guarded(data):
                    for at, read in _steady(file.fileno(), parts):
                        data[at : at + len(read)] = read
                for at, read in _strings(file.fileno(), data):  # last: what was just read may name new ones
                    data[at : at + len(read)] = read
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error
    return bytes(data)


def _strings(fd: int, data: bytearray) -> list[tuple[int, bytes]]:
    """How many there are, and then they themselves: those are written before they are counted."""
    offset, size = struct.unpack_from("<2Q", data, (f.H_SECTIONS + 2 * f.S_STRINGS) * f.WORD)
    used = f.H_STRINGS_USED * f.WORD
    return [(used, os.pread(fd, f.WORD, used)), (offset, os.pread(fd, size, offset))]


def _empty_torn_slots(before: bytes, data: bytearray) -> None:
    earlier, words = np.frombuffer(before, dtype="<u8"), np.frombuffer(data, dtype="<u8")
    for section in (f.S_RING, f.S_NOTES):
        offset, count = (int(earlier[f.H_SECTIONS + 2 * section + one]) for one in (0, 1))
        part = slice(offset // f.WORD, offset // f.WORD + count * f.RING_WORDS)
        old, new = (one[part].reshape(count, f.RING_WORDS) for one in (earlier, words))
        new[(old != new).any(axis=1), f.R_SEQUENCE] = 0


def _guarded(data: bytearray) -> list[list[tuple[int, int]]]:
    """Offset and size of what is only valid as a whole: each board entry, and the last words with their length."""
    words = np.frombuffer(data, dtype="<u8", count=f.HEADER_SIZE // f.WORD)
    board, entries = (int(words[f.H_SECTIONS + 2 * f.S_BOARD + one]) for one in (0, 1))
    said, room = (int(words[f.H_SECTIONS + 2 * f.S_LAST_WORDS + one]) for one in (0, 1))
    found = [[(board + number * f.BOARD_ENTRY, f.BOARD_ENTRY)] for number in range(entries)]
    return [*found, [(f.H_LAST_WORDS * f.WORD, f.WORD), (said, room)]]


def _steady(fd: int, parts: list[tuple[int, int]]) -> list[tuple[int, bytes]]:
    """The parts as two reads in a row found them."""
    found = [(at, os.pread(fd, size, at)) for at, size in parts]
    for _ in range(ATTEMPTS):
        again = [(at, os.pread(fd, size, at)) for at, size in parts]
        if again == found:
            break
        found = again
    return found


def _validate(path: Path, data: bytes) -> None:
    if not data:  # killed before the space was reserved
        raise Unfinished
    if len(data) < f.HEADER_SIZE:
        raise UserError(f"{path} is cut short", "the disk may have been full; the other recordings are still read")
    words = np.frombuffer(data[: f.HEADER_SIZE], dtype="<u8")
    magic, version, size = (int(words[at]) for at in (f.H_MAGIC, f.H_VERSION, f.H_SIZE))
    if magic == 0 and size in (0, len(data)):
        raise Unfinished
    if magic != f.MAGIC:
        raise UserError(f"{path} is not a recording of unstuck", "remove it from the run folder")
    if version > f.VERSION:
        raise UserError(
            f"{path} was written by a newer unstuck (format {version}, this one reads {f.VERSION})",
            "upgrade unstuck here",
        )
    if size != len(data):
        raise UserError(f"{path} is cut short ({len(data):,} of {size:,} bytes)", "copy the run folder again")
    offset, count = 0, 0
    for number, unit in enumerate(UNITS):
        offset, count = (int(words[f.H_SECTIONS + 2 * number + one]) for one in (0, 1))
        if offset % f.WORD or offset + count * unit > size:
            raise UserError(f"{path} is damaged: a section lies outside the file", "copy the run folder again")
