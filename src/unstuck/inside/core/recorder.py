"""Writes one process's recording.

Nothing here locks, buffers or formats. A store through `memoryview.cast("Q")` is one aligned 8-byte store, and every
word that stands alone is written that way. `struct.pack_into` is three times as fast for many words, but zero-fills
first, and readers saw those zeros: it only fills what a guard word, stored afterwards, makes valid. No text is written
but through the redaction.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from .. import format as f
from ..redaction import redacted, redacted_document

clock = time.monotonic_ns
pack_event = struct.Struct("4Q3q").pack_into
FEW = 8  # records: writing them one by one costs no more
pack_board = struct.Struct("3Q4qQ").pack_into


class Recorder:
    """The open recording of this process."""

    def __init__(self, path: str, layout: f.Layout) -> None:
        self.path = path
        size = layout.size()
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # A sparse mapping on a full disk would kill the training with SIGBUS.
            os.posix_fallocate(fd, 0, size)
            self._map, self._duplicate = _mapped(fd, size)
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
        self._sequences = itertools.count(1)
        self._next_sequence = self._sequences.__next__  # atomic under the GIL: no two threads share a slot
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
        if self._duplicate is None or _identity(self._duplicate[0]) == self._duplicate[1]:
            self._map.close()
        else:  # the number is the user's now, who has closed what he does not know
            _kept.append(self._map)
        self._map = mmap.mmap(-1, size)
        self.bytes = memoryview(self._map)
        self.words = self.bytes.cast("Q")

    def event(self, kind: int, key: int, start: int, duration: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        sequence = self._next_sequence()
        at = self.ring + (sequence % self.ring_count) * f.RING_WORDS
        words = self.words
        words[at] = 0
        pack_event(self.bytes, (at + 1) << 3, kind, key, start, duration, a, b, c)
        words[at] = sequence

    def events(self, kind: int, key: int, *columns: Sequence[int]) -> None:
        """The same for many at once, column by column: all starts, all durations, then a, b and c as far as given.

        Strided slices are filled word by word, each in one store, at a quarter of the price.
        """
        number = len(columns[0])
        if number < FEW:
            for row in zip(*columns, strict=True):
                self.event(kind, key, *row)
            return
        pack = struct.Struct(f"{number}q").pack
        filled = [struct.pack("q", kind) * number, struct.pack("q", key) * number, *(pack(*one) for one in columns)]
        views = [memoryview(one).cast("Q") for one in filled]
        claimed = tuple(islice(self._sequences, number))  # in one go: no thread comes in between
        sequences = memoryview(pack(*claimed)).cast("Q")
        words, done = self.words, 0
        while done < number:
            slot = claimed[done] % self.ring_count
            many = min(number - done, self.ring_count - slot)
            begin = self.ring + slot * f.RING_WORDS
            end = begin + many * f.RING_WORDS
            words[begin : end : f.RING_WORDS] = memoryview(bytes(many * f.WORD)).cast("Q")
            for column, view in enumerate(views, 1):
                words[begin + column : end : f.RING_WORDS] = view[done : done + many]
            words[begin : end : f.RING_WORDS] = sequences[done : done + many]
            done += many

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

    def totals(self, slot: int, durations: Sequence[int]) -> None:
        """The same for many at once."""
        if len(durations) < FEW:
            for duration in durations:
                self.total(slot, duration)
            return
        words, buckets = self.words, slot + f.T_BUCKETS
        for bits, number in Counter(map(int.bit_length, durations)).items():
            words[buckets + bits] += number
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

    def board_word(self, slot: int, word: int) -> int:
        """Of the copy that is valid."""
        version: int = self.words[slot >> 3]
        found: int = self.words[(slot + 64 + (version & 1) * f.BOARD_COPY >> 3) + word]
        return found

    def board_text(
        self, slot: int, kind: int, key: int, since: int, text: str, a: int = 0, b: int = 0, c: int = 0, d: int = 0
    ) -> None:
        """The same with a text, of which the end is kept: the end of a path says more than its beginning."""
        encoded = redacted(text).encode("utf-8", "replace")[-f.BOARD_TEXT :]
        words = self.words
        version = words[slot >> 3] + 1
        copy = slot + 64 + (version & 1) * f.BOARD_COPY
        pack_board(self.bytes, copy, kind, key, since, a, b, c, d, len(encoded))
        self.bytes[copy + 64 : copy + 64 + len(encoded)] = encoded
        words[slot >> 3] = version

    def board_back(self, slot: int, version: int) -> None:
        """Make the copy before this one the valid one again, unless there is a newer one."""
        if self.words[slot >> 3] == version:
            self.words[slot >> 3] = version + 1

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
            number = self._append(redacted_document(text).encode("utf-8", "replace"))
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
        encoded = redacted_document(text).encode("utf-8", "replace")
        if len(encoded) > self._last_words_size:
            return False
        self.words[f.H_LAST_WORDS] = 0
        self.bytes[self._last_words : self._last_words + len(encoded)] = encoded
        self.words[f.H_LAST_WORDS] = len(encoded)
        return True


def _mapped(fd: int, size: int) -> tuple[mmap.mmap, tuple[int, tuple[int, int] | None] | None]:
    """The file's mapping. Before Python 3.13 it has a duplicate of the descriptor: its number, the file's identity."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(fd, size, trackfd=False), None
    lowest = os.dup(fd)  # the number that the duplicate will have, unless a thread takes it in between
    os.close(lowest)
    return mmap.mmap(fd, size), (lowest, _identity(fd))


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_kept: list[mmap.mmap] = []  # closing them would close what is the user's


def started_ticks() -> int:
    """When this process started, in clock ticks since boot: with the pid it is an identity."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
