"""Decodes the recording format: header, board, totals, strings and last words, wherever the bytes come from.

Everything that reads a recording stands on this: `reader.py` takes a copy of the whole file, `tail.py` follows one that
grows, `boards.py` looks at what goes on. Nothing here needs numpy, whose threads would take the watcher's signals.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import UserError
from ..evidence.basics import Place
from ..inside import format as f
from ..inside.format import Kind
from ..safe_files import open_plain
from ..wording.left_out import encodable
from ..wording.texts import every_text

LARGEST = 4 * max(one.size() for one in (f.MAIN_LAYOUT, f.WORKER_LAYOUT, f.DETAILED_LAYOUT))  # bytes, for years to come
# Entries of each section; reading them may take the square of their number.
MOST = tuple(2 * max(each) for each in zip(f.MAIN_LAYOUT, f.WORKER_LAYOUT, f.DETAILED_LAYOUT, strict=True))
RECORD, TOTAL = f.RING_WORDS * f.WORD, f.TOTAL_WORDS * f.WORD  # bytes
UNITS = (f.BOARD_ENTRY, TOTAL, RECORD, RECORD, 1, 1)  # bytes of an entry, by section
# What a word can be at most. A count of nanoseconds comes to 2 ** 62 after 146 years; sums of anything stay in 8 bytes.
MOMENT, AMOUNT, NUMBER, PROCESS = 1 << 62, 1 << 56, 1 << 24, (1 << 31) - 1
KINDS = 1 << 8  # what every kind is below
BOUNDS = {
    **dict.fromkeys((f.H_PID, f.H_PARENT, f.H_ATTEMPT), PROCESS),
    **dict.fromkeys((f.H_RANK, f.H_LOCAL_RANK, f.H_WORLD, f.H_WORKER, f.H_WORKERS, f.H_FORK_THREADS), NUMBER),
    **dict.fromkeys((f.H_STARTED, f.H_MONOTONIC, f.H_WALL, f.H_ENDED, f.H_STEP_AT, f.H_IMPORTED), MOMENT),
    **dict.fromkeys((f.H_MODEL_BEGUN, f.H_MODEL_ENDED, f.H_FIRST_SAMPLE), MOMENT),
    **dict.fromkeys((f.H_COST, f.H_COST_COUNT, f.H_COST_MAX, f.H_STEPS, f.H_PARAMETERS, f.H_ELEMENTS), AMOUNT),
    **dict.fromkeys((f.H_ALLOWED, f.H_ASK), NUMBER),
    f.H_STACK_SIGNAL: 65,
}
LOADER_KINDS = (Kind.LOADER, Kind.ITERATOR, Kind.WAIT, Kind.BODY, Kind.PASS_END, Kind.SHUTDOWN)
FETCH_KINDS = (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE, Kind.IDLE)  # by phase
ATTEMPTS = 20  # to read an entry while it does not change
GUARDS = 8 * f.WORD  # of a board entry: its version and live words, which change with all that happens
COPY_AGAIN = "copy the run folder again"
AT_FIRST = 8  # board entries that are read of an open recording; all, where these are in use
_HEADER = struct.Struct(f"<{f.H_WORDS}Q")
_LIVE, _COPY = struct.Struct("<2Q3q"), struct.Struct("<3Q4qQ")
_TOTAL = struct.Struct(f"<{f.TOTAL_WORDS}Q")


class Unfinished(ValueError):  # noqa: N818  (a state, not an error)
    """A recording whose process was still opening it: it has no identity yet and says nothing."""


class UnreadableError(UserError, ValueError):
    """A file that is no recording, or no longer one."""


class Record(NamedTuple):
    """One event, frequent or rare."""

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
    """One entry of the board: what something is doing, and since when."""

    kind: int
    key: int
    since: int
    a: int
    b: int
    c: int
    d: int
    text: str


class Header(NamedTuple):
    """A header that was found good: its words, and offset and count of each section, all inside of the file."""

    words: tuple[int, ...]
    sections: list[tuple[int, int]]


def checked(path: str | Path, data: bytes, size: int) -> Header:
    """`data`: the first bytes of a file of this size. Raises Unfinished or UnreadableError."""
    if not size:  # killed before the space was reserved
        raise Unfinished(f"{path} is empty")
    if size < f.HEADER_SIZE or len(data) < _HEADER.size:
        raise UnreadableError(
            f"{path} is cut short", "the disk may have been full; the other recordings are still read"
        )
    words = _HEADER.unpack_from(data)
    magic, version, told = words[f.H_MAGIC], words[f.H_VERSION], words[f.H_SIZE]
    if magic == 0 and told in (0, size):
        raise Unfinished(f"{path} is being made")
    if magic != f.MAGIC:
        raise UnreadableError(f"{path} is not a recording of unstuck", "remove it from the run folder")
    if version > f.VERSION:
        raise UnreadableError(
            f"{path} was written by a newer unstuck (format {version}, this one reads {f.VERSION})",
            "upgrade unstuck here",
        )
    if told != size:
        raise UnreadableError(f"{path} is cut short ({size:,} of {told:,} bytes)", COPY_AGAIN)
    for number, bound in BOUNDS.items():
        if words[number] > bound:
            raise UnreadableError(f"{path} is damaged: word {number} of its header is {words[number]}", COPY_AGAIN)
    return Header(words, _sections(path, words, size))


def _sections(path: str | Path, words: tuple[int, ...], size: int) -> list[tuple[int, int]]:
    pairs = words[f.H_SECTIONS : f.H_SECTIONS + 2 * len(UNITS)]
    sections = list(zip(pairs[0::2], pairs[1::2], strict=True))
    if any(count > most for (_, count), most in zip(sections, MOST, strict=True)):
        raise UnreadableError(f"{path} is damaged: a section is larger than any of ours", COPY_AGAIN)
    for (offset, count), unit in zip(sections, UNITS, strict=True):
        if offset % f.WORD or offset < f.HEADER_SIZE or not count or offset + count * unit > size:
            raise UnreadableError(f"{path} is damaged: a section lies outside the file", COPY_AGAIN)
    return sections


class Decoder:
    """What stands in a recording. Who has its bytes says how a part of them is read."""

    def __init__(self, header: Header) -> None:
        self.header = header.words
        self.sections = header.sections
        self.damaged: dict[str, int] = {}  # entries with words that cannot be, which are left out, by what they are

    def part(self, section: int, at: int, size: int) -> bytes:
        """So many bytes of a section, from this one on. Raises OSError or ValueError where they are no longer there."""
        raise NotImplementedError

    def seconds(self, moment: int) -> float:
        """A monotonic stamp as seconds since the epoch."""
        return (self.header[f.H_WALL] + moment - self.header[f.H_MONOTONIC]) / 1e9

    def moment(self, seconds: float) -> int:
        """And back."""
        return int(seconds * 1e9) - self.header[f.H_WALL] + self.header[f.H_MONOTONIC]

    def string(self, number: int) -> str:
        """An interned string; empty when the table was full."""
        size, begin = self.string_bytes(), number - 1 + f.WORD
        if number <= 0 or begin > size:
            return ""
        length = int.from_bytes(self.part(f.S_STRINGS, number - 1, f.WORD), "little")
        return self.part(f.S_STRINGS, begin, min(length, size - begin)).decode("utf-8", "replace")

    def string_bytes(self) -> int:
        """How many of the table may be read."""
        return self.sections[f.S_STRINGS][1]

    def told(self, number: int) -> dict[str, Any]:
        """Facts that were written as JSON, by name. Raises ValueError where the string is something else."""
        return msgspec.json.decode(self.string(number) or "{}", type=dict[str, Any])

    def last_words(self) -> list[dict[str, Any]]:
        """The exceptions that were kept, oldest first."""
        length = self.last_words_bytes()
        try:
            said = json.loads(self.part(f.S_LAST_WORDS, 0, length)) if length else []
        except (ValueError, RecursionError):  # it is being replaced, or damaged
            return []
        known = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
        return every_text(known, encodable)  # JSON may name half of a character

    def last_words_bytes(self) -> int:
        """How many they are; 0 also while they are being replaced."""
        length = self.header[f.H_LAST_WORDS]
        return length if length <= self.sections[f.S_LAST_WORDS][1] else 0

    def board(self) -> list[Entry]:
        """What goes on at this moment. An entry that is written all the time is left out."""
        found = [entry_of(data) for data in self.board_entries()]
        kept = [one for one in found if one.since < MOMENT]
        self.leave_out("entries of the board", len(found) - len(kept))
        return kept

    def board_entries(self) -> Iterator[bytes]:
        """The bytes of each entry that is in use, whole."""
        raise NotImplementedError

    def totals(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """Totals by kind and key, as sum, longest and buckets."""
        data = self.part(f.S_TOTALS, 0, self.sections[f.S_TOTALS][1] * TOTAL)
        kinds = memoryview(data).cast("Q")[f.T_KIND :: f.TOTAL_WORDS].tolist()
        slots = [_TOTAL.unpack_from(data, number * TOTAL) for number, kind in enumerate(kinds) if kind]
        kept = [one for one in slots if max(one[f.T_SUM :]) < AMOUNT]
        self.leave_out("totals", len(slots) - len(kept))
        return {(one[f.T_KIND], one[f.T_KEY]): one[f.T_SUM :] for one in kept}

    def leave_out(self, what: str, number: int) -> None:
        if number:
            self.damaged[what] = self.damaged.get(what, 0) + number


class OpenRecording(Decoder):
    """A recording that is held open while it is written."""

    def __init__(self, path: str | Path) -> None:
        """Raises OSError or ValueError where there is nothing to read yet, or never will be."""
        self.path = path
        self._fd = open_plain(path, largest=LARGEST)
        try:
            super().__init__(checked(path, os.pread(self._fd, _HEADER.size, 0), os.fstat(self._fd).st_size))
        except BaseException:
            os.close(self._fd)
            raise
        self._entries = min(AT_FIRST, self.sections[f.S_BOARD][1])

    def close(self) -> None:
        os.close(self._fd)

    def look(self) -> tuple[int, ...]:
        """Read the header anew."""
        self.header = _HEADER.unpack(pread(self._fd, _HEADER.size, 0))
        return self.header

    def word(self, number: int) -> int:
        """One word of the header, now."""
        return int.from_bytes(self.words(number, 1), "little")

    def words(self, number: int, count: int) -> bytes:
        """Words of the header that follow each other, now."""
        return pread(self._fd, count * f.WORD, number * f.WORD)

    def part(self, section: int, at: int, size: int) -> bytes:
        return pread(self._fd, size, self.sections[section][0] + at)

    def board_entries(self) -> Iterator[bytes]:
        return steady_entries(lambda at, size: self.part(f.S_BOARD, at, size), self.entries_in_use())

    def entries_in_use(self) -> int:
        """How many entries of the board are worth reading: few, as long as the last of these is empty."""
        count = self.sections[f.S_BOARD][1]
        if self._entries < count and any(self.part(f.S_BOARD, (self._entries - 1) * f.BOARD_ENTRY, GUARDS)):
            self._entries = count
        return self._entries


def pread(fd: int, size: int, at: int) -> bytes:
    """All of it, or ValueError: somebody has cut the file short since it was opened."""
    data = os.pread(fd, size, at)
    if len(data) < size:
        raise ValueError("it was cut short")
    return data


def steady_entries(read: Callable[[int, int], bytes], count: int) -> Iterator[bytes]:
    """The board's entries that are in use, each as two reads in a row found it; `read` takes offset and size.

    Words of one read may come from different moments, in any order: only what two reads agree on was read whole. The
    live words are stores of their own and may change at any time.
    """
    size = count * f.BOARD_ENTRY
    first, data = read(0, size), read(0, size)
    versions = memoryview(data).cast("Q")[:: f.BOARD_ENTRY // f.WORD].tolist()
    for at in (number * f.BOARD_ENTRY for number, version in enumerate(versions) if version):
        before, entry = first[at : at + f.BOARD_ENTRY], data[at : at + f.BOARD_ENTRY]
        for _ in range(ATTEMPTS):
            if _same(before, entry):
                yield entry
                break
            before, entry = entry, read(at, f.BOARD_ENTRY)


def _same(before: bytes, entry: bytes) -> bool:
    copy = GUARDS + (entry[0] & 1) * f.BOARD_COPY
    return before[: f.WORD] == entry[: f.WORD] and before[copy:][: f.BOARD_COPY] == entry[copy:][: f.BOARD_COPY]


def entry_of(data: bytes) -> Entry:
    """The valid copy; where the live words are not older, what they say."""
    version, phased, one, two, three = _LIVE.unpack_from(data)
    copy = GUARDS + (version & 1) * f.BOARD_COPY
    kind, key, since, a, b, c, d, length = _COPY.unpack_from(data, copy)
    moment, phase = phased >> 2, phased & 3
    if moment and moment >= since:
        if kind in LOADER_KINDS:  # batches of this pass: those of the copy, and those since
            return Entry((Kind.WAIT, Kind.BODY)[phase & 1], key, moment, signed(a + one - c), b, one, two, "")
        if kind in FETCH_KINDS:
            return Entry(FETCH_KINDS[phase], key, moment, two, three, one, 0, "")
    text = data[copy + GUARDS : copy + GUARDS + min(length, f.BOARD_TEXT)]
    return Entry(kind, key, since, a, b, c, d, text.decode("utf-8", "replace"))


def signed(word: int) -> int:
    """A word of eight bytes as the number that may be below zero."""
    word &= f.MASK
    return word - (1 << 64) if word >> 63 else word


def less_one(word: int) -> int | None:
    """A number that is stored plus one, so that 0 means that there is none."""
    return word - 1 if word else None


def quantile(buckets: Sequence[int], share: float, longest: int) -> float:
    """Of a total, in seconds: the middle of the bucket in which it lies, right within a factor of 1.5."""
    wanted = sum(buckets) * share
    seen = 0
    for bits, count in enumerate(buckets):
        seen += count
        if count and seen >= wanted:
            return float(min(1.5 * 2 ** max(bits - 1, 0), longest)) / 1e9
    return 0.0


def place_in(parts: Sequence[str]) -> Place | None:
    """File, line and function as they stand in a string."""
    return Place(parts[0], int(parts[1]), parts[2]) if len(parts) == 3 and parts[1].isdecimal() else None
