"""Reads what the recorded processes are doing now, often and at next to no cost: a few words of each recording.

Every look may raise OSError or ValueError: the file is gone, or is no longer what it was.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from ..inside import format as f
from ..inside.format import Kind
from ..logs.tail import open_recording, pread

AT_FIRST = 8  # board entries that are read; more where these are all in use
GUARDS = 8 * f.WORD  # of each entry: its version and live words, which change with all that happens
START = f.H_FIRST_SAMPLE + 1 - f.H_IMPORTED  # words of the header that change until the first sample is there
LOADER = (Kind.LOADER, Kind.ITERATOR, Kind.WAIT, Kind.BODY, Kind.PASS_END, Kind.SHUTDOWN)
BESIDE = (0, Kind.SAVE, Kind.COMPILED, Kind.CALL)  # what comes now and then, whatever the loop does
PHASES = {Kind.WAIT: (Kind.WAIT, Kind.BODY), Kind.FETCH: (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE, Kind.IDLE)}


class Board:
    """One process's recording, held open."""

    def __init__(self, path: Path) -> None:
        """Raises OSError or ValueError where there is nothing to read yet."""
        self.path = path
        self._fd, header, sections = open_recording(path)
        self.pid, self.parent = header[f.H_PID], header[f.H_PARENT]
        self._board, self._entries = sections[f.S_BOARD]
        self._totals, self._slots = sections[f.S_TOTALS]
        self._count = min(AT_FIRST, self._entries)

    def close(self) -> None:
        os.close(self._fd)

    def role(self) -> int:
        """It may show only after the recording was opened."""
        return self._word(f.H_ROLE)

    def rank(self) -> int | None:
        return self._word(f.H_RANK) - 1 if self._word(f.H_RANK) else None

    def signature(self) -> bytes:
        """Changes whenever anything happens: a batch, a sample, a stage, a step, a parameter, a word of the user's."""
        data = self._read(self._board, self._count * f.BOARD_ENTRY)
        guards = [data[at : at + GUARDS] for at in range(0, len(data), f.BOARD_ENTRY)]
        if guards and any(guards[-1]) and self._count < self._entries:
            self._count = self._entries
        steps, start = self._read(f.H_STEPS * f.WORD, 2 * f.WORD), self._read(f.H_IMPORTED * f.WORD, START * f.WORD)
        return b"".join(guards) + steps + start

    def begun(self) -> bool:
        """It has made a step, or a loader of its has given two batches that it does not pass over."""
        if self._word(f.H_STEPS):
            return True
        data = self._read(self._board, self._entries * f.BOARD_ENTRY)
        given: dict[int, int] = {}
        passed_over: dict[int, int] = {}
        for at in range(0, len(data), f.BOARD_ENTRY):
            live = struct.unpack_from("<8Q", data, at)
            copy = struct.unpack_from("<8Q", data, at + GUARDS + (live[0] & 1) * f.BOARD_COPY)
            if live[0] and copy[f.B_KIND] in LOADER:
                given[copy[f.B_KEY]] = live[f.L_ONE]
            elif live[0] and copy[f.B_KIND] == Kind.SKIPPING:
                passed_over[copy[f.B_KEY]] = copy[f.B_B]
        return any(batches > 1 + passed_over.get(number, 0) for number, batches in given.items())

    def tells_progress(self) -> bool:
        """It has made a step, or shows anything that changes with progress: a loader, a stage, words of the user's."""
        if self._word(f.H_STEPS):
            return True
        data = self._read(self._board, self._entries * f.BOARD_ENTRY)
        kinds = [self._entry(data, at)[0] for at in range(0, len(data), f.BOARD_ENTRY) if any(data[at : at + f.WORD])]
        return any(kind not in BESIDE for kind in kinds)

    def newest(self) -> tuple[int, int, int]:
        """Kind, key and time since when of what the process turned to last. Kind 0: nothing yet."""
        data = self._read(self._board, self._entries * f.BOARD_ENTRY)
        found = [self._entry(data, at) for at in range(0, len(data), f.BOARD_ENTRY) if any(data[at : at + f.WORD])]
        return max(found, key=lambda one: one[2], default=(0, 0, 0))

    def usual(self, kind: int, key: int) -> float | None:
        """The longest that this normally takes, in seconds: its 99th percentile. None: it was never done."""
        data = self._read(self._totals, self._slots * f.TOTAL_WORDS * f.WORD)
        for slot in struct.iter_unpack(f"<{f.TOTAL_WORDS}Q", data):
            if (slot[f.T_KIND], slot[f.T_KEY]) == (kind, key):
                return _percentile(slot[f.T_BUCKETS :], slot[f.T_MAX])
        return None

    def _entry(self, data: bytes, at: int) -> tuple[int, int, int]:
        live = struct.unpack_from("<8Q", data, at)
        copy = at + GUARDS + (live[0] & 1) * f.BOARD_COPY
        kind, key, since = struct.unpack_from("<3Q", data, copy)
        moment, phase = live[f.L_PHASE] >> 2, live[f.L_PHASE] & 3
        if moment > since:
            phases = PHASES[Kind.FETCH if kind in PHASES[Kind.FETCH] else Kind.WAIT]
            return phases[phase % len(phases)], key, moment
        return kind, key, since

    def _word(self, at: int) -> int:
        return int.from_bytes(self._read(at * f.WORD, f.WORD), "little")

    def _read(self, offset: int, size: int) -> bytes:
        return pread(self._fd, size, offset)


def _percentile(buckets: tuple[int, ...], longest: int) -> float | None:
    """The upper end of the bucket in which 99 of 100 lie."""
    wanted = sum(buckets) * 0.99
    seen = 0
    for bits, count in enumerate(buckets):
        seen += count
        if count and seen >= wanted:
            return float(min(2**bits, longest)) / 1e9
    return None
