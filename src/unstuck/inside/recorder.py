"""Writes one process's recording.

Nothing here locks, buffers or formats. A store through `memoryview.cast("Q")` is one aligned 8-byte store, and every
word that stands alone is written that way. `struct.pack_into` is three times as fast for many words, but zero-fills
first, and readers saw those zeros: it only fills what a guard word, stored afterwards, makes valid.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import time

from . import format as f

clock = time.monotonic_ns
pack_event = struct.Struct("<4Q3q").pack_into
pack_board = struct.Struct("<3Q4qQ").pack_into


class Recorder:
    """The open recording of this process."""

    def __init__(self, path: str, layout: f.Layout) -> None:
        self.path = path
        size = layout.size()
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # A sparse mapping on a full disk would kill the training with SIGBUS.
            os.posix_fallocate(fd, 0, size)
            self._map = mmap.mmap(fd, size)
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(fd)
        self.bytes = memoryview(self._map)
        self.words = self.bytes.cast("Q")
        sections = layout.sections()
        self._board, self._board_count = sections[f.S_BOARD]
        self._totals = sections[f.S_TOTALS][0] // f.WORD
        self._total_count = layout.totals
        self.ring = sections[f.S_RING][0] // f.WORD
        self.ring_count = layout.ring
        self._notes = sections[f.S_NOTES][0] // f.WORD
        self._notes_count = layout.notes
        self._strings, self._strings_size = sections[f.S_STRINGS]
        self._last_words, self._last_words_size = sections[f.S_LAST_WORDS]
        self.next_sequence = itertools.count(1).__next__  # atomic under the GIL: no two threads share a slot
        self._next_note = itertools.count(1).__next__
        self._next_total = itertools.count().__next__
        self._next_board = itertools.count().__next__
        self._interned: dict[str, int] = {}
        self._claimed: dict[int, tuple[object, int]] = {}
        self._total_slots: dict[tuple[int, int], int] = {}
        self._board_slots: dict[tuple[int, int], int] = {}
        self._write_header(layout, size)

    def _write_header(self, layout: f.Layout, size: int) -> None:
        words = self.words
        words[f.H_VERSION] = f.VERSION
        words[f.H_SIZE] = size
        words[f.H_PID] = os.getpid()
        words[f.H_STARTED] = started_ticks()
        words[f.H_PARENT] = os.getppid()
        words[f.H_MONOTONIC] = clock()
        words[f.H_WALL] = time.time_ns()
        for number, (offset, count) in enumerate(layout.sections()):
            words[f.H_SECTIONS + 2 * number] = offset
            words[f.H_SECTIONS + 2 * number + 1] = count

    def publish(self) -> None:
        """Make the recording readable, once its identity is written."""
        self.words[f.H_MAGIC] = f.MAGIC

    def abandon(self) -> None:
        """Let go of a mapping that is the parent's, after a fork. What still holds this recorder writes to nowhere."""
        size = len(self.bytes)
        self.words.release()
        self.bytes.release()
        self._map.close()
        self._map = mmap.mmap(-1, size)
        self.bytes = memoryview(self._map)
        self.words = self.bytes.cast("Q")

    def event(self, kind: int, key: int, start: int, duration: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        sequence = self.next_sequence()
        at = self.ring + (sequence % self.ring_count) * f.RING_WORDS
        words = self.words
        words[at] = 0
        pack_event(self.bytes, (at + 1) << 3, kind, key, start, duration, a, b, c)
        words[at] = sequence

    def note(self, kind: int, key: int, start: int, duration: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        """The same for what is rare: frequent events do not push it out."""
        sequence = self._next_note()
        at = self._notes + (sequence % self._notes_count) * f.RING_WORDS
        self.words[at] = 0
        pack_event(self.bytes, (at + 1) << 3, kind, key, start, duration, a, b, c)
        self.words[at] = sequence

    def total_slot(self, kind: int, key: int = 0) -> int:
        """Where the totals of a kind and key stand, as a word index. The last, without a kind, takes the overflow."""
        slot = self._total_slots.get((kind, key))
        if slot is None:
            number = min(self._next_total(), self._total_count - 1)
            slot = self._totals + number * f.TOTAL_WORDS
            if number < self._total_count - 1:
                self.words[slot + f.T_KEY] = key
                self.words[slot + f.T_KIND] = kind
            mine, slot = slot, self._total_slots.setdefault((kind, key), slot)
            if mine != slot:  # another thread came first
                self.words[mine + f.T_KIND] = 0
        return slot

    def total(self, slot: int, duration: int) -> None:
        words = self.words
        words[slot + f.T_BUCKETS + duration.bit_length()] += 1
        words[slot + f.T_SUM] += duration
        if duration > words[slot + f.T_MAX]:  # noqa: PLR1730  (max() costs a call for every event there is)
            words[slot + f.T_MAX] = duration

    def totals(self, slot: int, durations: list[int]) -> None:
        """The same for many at once."""
        if durations:
            words, buckets = self.words, slot + f.T_BUCKETS
            for duration in durations:
                words[buckets + duration.bit_length()] += 1
            words[slot + f.T_SUM] += sum(durations)
            words[slot + f.T_MAX] = max(words[slot + f.T_MAX], *durations)

    def board_slot(self, kind: int, key: int = 0) -> int:
        """Where the board entry of a kind and key stands, as a byte offset. All that find no room share the last."""
        slot = self._board_slots.get((kind, key))
        if slot is None:
            number = min(self._next_board(), self._board_count - 1)
            slot = self._board_slots.setdefault((kind, key), self._board + number * f.BOARD_ENTRY)
        return slot

    def board(self, slot: int, kind: int, key: int, since: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> None:
        """Replace a board entry: write the copy that is not valid, then make it the valid one with one store."""
        words = self.words
        version = words[slot >> 3] + 1
        pack_board(self.bytes, slot + 64 + (version & 1) * f.BOARD_COPY, kind, key, since, a, b, c, d, 0)
        words[slot >> 3] = version

    def board_text(self, slot: int, kind: int, key: int, since: int, text: str, a: int = 0, b: int = 0) -> None:
        """The same with a text, of which the end is kept: the end of a path says more than its beginning."""
        encoded = text.encode("utf-8", "replace")[-f.BOARD_TEXT :]
        words = self.words
        version = words[slot >> 3] + 1
        copy = slot + 64 + (version & 1) * f.BOARD_COPY
        pack_board(self.bytes, copy, kind, key, since, a, b, 0, 0, len(encoded))
        self.bytes[copy + 64 : copy + 64 + len(encoded)] = encoded
        words[slot >> 3] = version

    def cost(self, spent: int, count: int = 1) -> None:
        """Add to what the recording itself has cost, so that every report can state it."""
        words = self.words
        words[f.H_COST] += spent
        words[f.H_COST_COUNT] += count
        words[f.H_COST_MAX] = max(words[f.H_COST_MAX], spent)

    def intern(self, text: str) -> int:
        """Number of a string: its offset in the table plus one; 0 when the table is full."""
        number = self._interned.get(text)
        if number is None:
            number = self._append(text.encode("utf-8", "replace"))
            if number:  # what has no room is not remembered either: names made up in a loop would fill the memory
                self._interned[text] = number
        return number

    def _append(self, encoded: bytes) -> int:
        words = self.words
        start = self._claim(f.WORD + (len(encoded) + 7) // 8 * 8)
        if start is None:
            words[f.H_STRINGS_LOST] += 1
            return 0
        at = self._strings + start
        words[at >> 3] = len(encoded)
        self.bytes[at + f.WORD : at + f.WORD + len(encoded)] = encoded
        words[f.H_STRINGS_USED] = max(words[f.H_STRINGS_USED], self._claimed[start][1])
        return start + 1

    def _claim(self, size: int) -> int | None:
        """Room in the string table that no other thread gets: `setdefault` is atomic where a lock might be forked."""
        me = object()
        start: int = self.words[f.H_STRINGS_USED]
        while start + size <= self._strings_size:
            owner, end = self._claimed.setdefault(start, (me, start + size))
            if owner is me:
                return start
            start = end
        return None

    def last_words(self, text: str) -> bool:
        """Replace the last words. Their length is stored after their bytes. False: there is no room for so many."""
        encoded = text.encode("utf-8", "replace")
        if len(encoded) > self._last_words_size:
            return False
        self.words[f.H_LAST_WORDS] = 0
        self.bytes[self._last_words : self._last_words + len(encoded)] = encoded
        self.words[f.H_LAST_WORDS] = len(encoded)
        return True


def started_ticks() -> int:
    """When this process started, in clock ticks since boot: with the pid it is an identity."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
