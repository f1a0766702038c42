"""Reads one recording file as a whole, while it is being written or long after its process is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..errors import UserError
from ..evidence.basics import Timing
from ..inside import format as f
from ..safe_files import NotPlainError, open_plain
from .decoder import (
    AMOUNT,
    ATTEMPTS,
    COPY_AGAIN,
    LARGEST,
    MOMENT,
    RECORD,
    Decoder,
    Entry,
    UnreadableError,
    checked,
    pread,
    quantile,
    steady_entries,
)
from .passes import Pass

Words = npt.NDArray[np.uint64]
CHUNK = 512  # records of a ring that are read at first, then ever more: most processes fill a small part of theirs
RINGS = (f.S_RING, f.S_NOTES)
OVERLAPPING = 2  # times the table's size that all strings may have together: none of ours overlap
MOST_SAID = 64 << 20  # characters that are read out of one recording's strings, which are read more than once


class Recording(Decoder):
    """A consistent copy of what one process has recorded so far; what it has never written is not read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts: dict[int, bytes] = {}  # by section
        self._records: dict[int, Words] = {}  # of each ring: slots that are whole
        self._entries: list[bytes] = []
        self._texts: dict[int, str] = {}
        self._unsaid = MOST_SAID
        try:
            fd = open_plain(path, largest=LARGEST)
        except NotPlainError as error:
            raise UserError(f"{error}, and left out", "remove it from the run folder") from error
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error
        try:
            self._copy(fd)
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror})", "check its permissions") from error
        finally:
            os.close(fd)

    def _copy(self, fd: int) -> None:
        """What is named by numbers is read after what names it."""
        size = os.fstat(fd).st_size
        first = checked(self.path, os.pread(fd, f.HEADER_SIZE, 0), size)
        try:
            rings = {section: _written(fd, *first.sections[section]) for section in RINGS}
            header = checked(self.path, pread(fd, f.HEADER_SIZE, 0), size)
            super().__init__(header)
            for section, data in rings.items():
                self._records[section] = self._valid(section, data, pread(fd, len(data), first.sections[section][0]))
            board, entries = self.sections[f.S_BOARD]
            self._entries = list(steady_entries(lambda at, size: pread(fd, size, board + at), entries))
            totals, slots = self.sections[f.S_TOTALS]
            self._parts[f.S_TOTALS] = pread(fd, slots * f.TOTAL_WORDS * f.WORD, totals)
            self._parts[f.S_LAST_WORDS] = _last_words(fd, *self.sections[f.S_LAST_WORDS])
            strings, room = self.sections[f.S_STRINGS]
            used = int.from_bytes(pread(fd, f.WORD, f.H_STRINGS_USED * f.WORD), "little")
            self._parts[f.S_STRINGS] = pread(fd, min(used, room), strings)
            self._room = OVERLAPPING * len(self._parts[f.S_STRINGS])
        except ValueError as error:
            raise UnreadableError(f"{self.path} was changed while it was read", COPY_AGAIN) from error
        self._board = super().board()

    def _valid(self, section: int, before: bytes, data: bytes) -> Words:
        """Records that are whole: their sequence fits their slot, and two reads agree on them."""
        slots = np.frombuffer(data, dtype="<u8").reshape(-1, f.RING_WORDS)
        sequences = slots[:, f.R_SEQUENCE]
        numbers = np.arange(len(slots), dtype=np.uint64)
        whole = (sequences != 0) & (sequences % self.sections[section][1] == numbers)
        if before != data:
            whole &= (np.frombuffer(before, dtype="<u8").reshape(-1, f.RING_WORDS) == slots).all(axis=1)
        written: Words = slots[whole]
        valid: Words = written[(written[:, f.R_START] < MOMENT) & (written[:, f.R_DURATION] < AMOUNT)]
        self.leave_out("records", len(written) - len(valid))
        return valid

    def part(self, section: int, at: int, size: int) -> bytes:
        return self._parts[section][at : at + size]

    def string(self, number: int) -> str:
        """Each once: thousands of records may name one of half a MiB, or thousands that overlap."""
        text = self._texts.get(number)
        if text is None:
            text = super().string(number)
            self._room -= len(text)
            text = self._texts[number] = text if self._room >= 0 else ""
        self._unsaid -= len(text)
        if self._unsaid < 0:
            raise ValueError("its notes say more than those of any training")
        return text

    def string_bytes(self) -> int:
        return len(self._parts[f.S_STRINGS])

    def last_words_bytes(self) -> int:
        return len(self._parts[f.S_LAST_WORDS])

    def board(self) -> list[Entry]:
        return self._board

    def board_entries(self) -> Iterator[bytes]:
        return iter(self._entries)

    def ring(self) -> list[list[int]]:
        """Records of frequent events in the order they were written; a slot that was being written is left out."""
        return _in_order(self._records[f.S_RING])

    def notes(self) -> list[list[int]]:
        """The same of rare events."""
        return _in_order(self._records[f.S_NOTES])

    def events(self, kind: int, key: int | None = None) -> Words:
        """Records of one kind of frequent events as rows of an array, in no order."""
        rows = self._records[f.S_RING]
        wanted = rows[:, f.R_KIND] == kind
        if key is not None:
            wanted &= rows[:, f.R_KEY] == key
        found: Words = rows[wanted]
        return found

    def newest(self) -> int:
        """The newest stamp on anything that was written, or 0."""
        rings = self._records.values()
        ends = [int((rows[:, f.R_START] + rows[:, f.R_DURATION]).max()) for rows in rings if len(rows)]
        return max([*ends, *(entry.since for entry in self.board())], default=0)


class Facts:
    """A recording with times counted from the beginning of the run, and what most of its readers need."""

    def __init__(self, recording: Recording, run_started: float) -> None:
        self.recording = recording
        self.run_started = run_started
        self.totals = recording.totals()
        self.notes = recording.notes()
        self._noted: dict[int, dict[int, list[list[int]]]] = {}  # by kind and key
        for one in self.notes:
            self._noted.setdefault(one[f.R_KIND], {}).setdefault(one[f.R_KEY], []).append(one)
        self.board = recording.board()
        self.passes: list[Pass] | None = None  # and stretches that the user named, once they were asked for
        # Files beside the recording, and parts of it, that could not be read.
        damaged = [f"{number:,} {what}" for what, number in recording.damaged.items()]
        self.left_out = [f"{recording.path} is damaged: {', '.join(damaged)} are left out"] if damaged else []

    def at(self, moment: int) -> float:
        return round(self.recording.seconds(moment) - self.run_started, 3)

    def exactly(self, moment: int) -> float:
        """For what is compared with times of other sources: a short step or save takes less than a millisecond."""
        return round(self.recording.seconds(moment) - self.run_started, 6)

    def noted(self, kind: int, key: int | None = None) -> list[list[int]]:
        """Notes of one kind, in the order they were written."""
        if key is not None:
            return list(self._noted.get(kind, {}).get(key, ()))
        return [one for one in self.notes if one[f.R_KIND] == kind]

    def rows(self, kind: int, key: int | None = None) -> list[list[int]]:
        """Notes and frequent events of a kind, in the order of time. What is among both comes twice."""
        ring: list[list[int]] = self.recording.events(kind, key).tolist()
        return sorted(self.noted(kind, key) + ring, key=lambda one: one[f.R_START])

    def decoded(self, number: int, kind: Any) -> Any:
        """A string that was written as JSON; empty where there was no room for it."""
        text = self.recording.string(number)
        return msgspec.json.decode(text, type=kind) if text else kind()

    def timing(self, kind: int, key: int) -> Timing:
        total = self.totals.get((kind, key))
        return timing_of(sum(total[2:]), *total) if total else Timing()


def timing_of(count: int, total: int, longest: int, *buckets: int) -> Timing:
    """From nanoseconds."""
    p50, p95, p99 = (quantile(buckets, share, longest) for share in (0.50, 0.95, 0.99))
    return Timing(count=count, total=total / 1e9, longest=longest / 1e9, p50=p50, p95=p95, p99=p99)


def _in_order(records: Words) -> list[list[int]]:
    ordered: list[list[int]] = records[np.argsort(records[:, f.R_SEQUENCE])].tolist()
    return ordered


def _written(fd: int, offset: int, count: int) -> bytes:
    """A ring as far as it was ever written: all of it, once it has come round to the slot before its first record."""
    parts, done, chunk = [], 0, min(CHUNK, count)
    while chunk:
        parts.append(pread(fd, chunk * RECORD, offset + done * RECORD))
        done += chunk
        if parts[-1] == bytes(len(parts[-1])):
            break
        has_come_round = any(parts[0][:RECORD])
        chunk = count - done if has_come_round else min(4 * chunk, count - done)
    return b"".join(parts)


def _last_words(fd: int, offset: int, room: int) -> bytes:
    """As two reads in a row found them, with the word that says how many there are."""
    before: bytes | None = None
    for _ in range(ATTEMPTS):
        length = pread(fd, f.WORD, f.H_LAST_WORDS * f.WORD)
        found = length + pread(fd, min(int.from_bytes(length, "little"), room), offset)
        if found == before:
            break
        before = found
    return found[f.WORD :]
