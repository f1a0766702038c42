"""Reads one recording file, while it is being written or long after its process is gone."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import UserError
from ..inside import format as f
from ..inside.format import Kind
from ..safe_files import NotPlainError, open_plain
from ..wording.left_out import encodable
from ..wording.texts import every_text

Words = npt.NDArray[np.uint64]
LARGEST = 4 * max(one.size() for one in (f.MAIN_LAYOUT, f.WORKER_LAYOUT, f.DETAILED_LAYOUT))  # bytes, for years to come
# What a word can be at most. A count of nanoseconds comes to 2 ** 62 after 146 years; sums of anything stay in 8 bytes.
MOMENT, AMOUNT, NUMBER, PROCESS = 1 << 62, 1 << 56, 1 << 24, 1 << 31
BOUNDS = {
    **dict.fromkeys((f.H_PID, f.H_PARENT, f.H_ATTEMPT), PROCESS),
    **dict.fromkeys((f.H_RANK, f.H_LOCAL_RANK, f.H_WORLD, f.H_WORKER, f.H_WORKERS, f.H_FORK_THREADS), NUMBER),
    **dict.fromkeys((f.H_STARTED, f.H_MONOTONIC, f.H_WALL, f.H_ENDED, f.H_STEP_AT, f.H_IMPORTED), MOMENT),
    **dict.fromkeys((f.H_MODEL_BEGUN, f.H_MODEL_ENDED, f.H_FIRST_SAMPLE), MOMENT),
    **dict.fromkeys((f.H_COST, f.H_COST_COUNT, f.H_COST_MAX, f.H_STEPS, f.H_PARAMETERS, f.H_ELEMENTS), AMOUNT),
    **dict.fromkeys((f.H_ALLOWED, f.H_ASK), NUMBER),
    f.H_STACK_SIGNAL: 65,
}
ATTEMPTS = 20
LOADER_KINDS = (Kind.LOADER, Kind.ITERATOR, Kind.WAIT, Kind.BODY, Kind.PASS_END, Kind.SHUTDOWN)
FETCH_KINDS = (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE, Kind.IDLE)
_SECTIONS = slice(f.H_SECTIONS * f.WORD, (f.H_SECTIONS + 12) * f.WORD)
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
            # Batches of this pass: those of the copy, and those since.
            self.a = (self.a + live[f.L_ONE] - self.c) & f.MASK
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
        self.damaged: dict[str, int] = {}  # entries with words that cannot be, which are left out, by what they are
        self._sections = list(zip(pairs[0::2], pairs[1::2], strict=True))
        self._both()

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
        written: Words = slots[(sequences != 0) & (sequences % count == np.arange(count, dtype=np.uint64))]
        valid: Words = written[(written[:, f.R_START] < MOMENT) & (written[:, f.R_DURATION] < AMOUNT)]
        self._leave_out("records", len(written) - len(valid))
        return valid

    def _leave_out(self, what: str, number: int) -> None:
        if number:
            self.damaged[what] = self.damaged.get(what, 0) + number

    def totals(self) -> dict[tuple[int, int], list[int]]:
        """Totals by kind and key, as sum, longest and buckets."""
        offset, count = self._sections[f.S_TOTALS]
        start = offset // f.WORD
        slots = self._words[start : start + count * f.TOTAL_WORDS].reshape(count, f.TOTAL_WORDS)
        used = slots[slots[:, f.T_KIND] != 0]
        valid = used[(used[:, f.T_SUM :] < AMOUNT).all(axis=1)]
        self._leave_out("totals", len(used) - len(valid))
        return {(row[f.T_KIND], row[f.T_KEY]): row[f.T_SUM :] for row in valid.tolist()}

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
        valid = [one for one in found if one.since < MOMENT]
        self._leave_out("entries of the board", len(found) - len(valid))
        return valid

    def string(self, number: int) -> str:
        """An interned string; empty when the table was full."""
        offset, size = self._sections[f.S_STRINGS]
        used = min(self.header[f.H_STRINGS_USED], size)
        if not 0 < number <= used:
            return ""
        at = offset + number - 1
        length = int.from_bytes(self._bytes[at : at + f.WORD], "little")
        begin, end = at + f.WORD, min(at + f.WORD + length, offset + size)
        return self._bytes[begin:end].decode("utf-8", "replace")

    def told(self, number: int) -> dict[str, Any]:
        """Facts that were written as JSON, by name. Raises ValueError where the string is something else."""
        return msgspec.json.decode(self.string(number) or "{}", type=dict[str, Any])

    def last_words(self) -> list[dict[str, Any]]:
        """The exceptions that were kept, oldest first."""
        offset, size = self._sections[f.S_LAST_WORDS]
        length = min(self.header[f.H_LAST_WORDS], size)
        try:
            said = json.loads(self._bytes[offset : offset + length]) if length else []
        except (ValueError, RecursionError):
            return []
        known = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
        return every_text(known, encodable)  # JSON may name half of a character


def _read(path: Path) -> bytes:
    """The file's bytes. What changed while it was read is read again; a ring slot that did is emptied.

    Words of one read may come from different moments, in any order: only what two reads agree on was read whole.
    """
    try:
        fd = open_plain(path, largest=LARGEST)
    except NotPlainError as error:
        raise UserError(f"{error}, and left out", "remove it from the run folder") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error
    try:
        return _consistent(path, fd)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error
    finally:
        os.close(fd)


def _consistent(path: Path, fd: int) -> bytes:
    before = os.pread(fd, LARGEST, 0)
    _validate(path, before)
    data = bytearray(os.pread(fd, len(before), 0))
    if data == before:
        return before
    if len(data) < len(before) or data[_SECTIONS] != before[_SECTIONS]:
        raise UserError(f"{path} was changed while it was read", "copy the run folder again")
    _empty_torn_slots(before, data)
    for parts in _guarded(data):
        for at, read in _steady(fd, parts):
            data[at : at + len(read)] = read
    for at, read in _strings(fd, data):  # last: what was just read may name new ones
        data[at : at + len(read)] = read
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
    _validate_words(path, words, size)


def _validate_words(path: Path, words: Words, size: int) -> None:
    """Where the sections are, and all numbers of the header that anything is counted, shown or looked up by."""
    for number, unit in enumerate(UNITS):
        offset, count = (int(words[f.H_SECTIONS + 2 * number + one]) for one in (0, 1))
        if offset % f.WORD or offset < f.HEADER_SIZE or not count or offset + count * unit > size:
            raise UserError(f"{path} is damaged: a section lies outside the file", "copy the run folder again")
    for number, bound in BOUNDS.items():
        if words[number] > bound:
            raise UserError(
                f"{path} is damaged: word {number} of its header is {words[number]}", "copy the run folder again"
            )
