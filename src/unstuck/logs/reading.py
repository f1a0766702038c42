"""Finds a run's log files and reads them, also while they are written and set aside."""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

from ..safe_files import open_plain
from ..wording.left_out import left_out
from .files import ENDING, INFO, RUN, Read, older, read

NAME = re.compile(r"(train|output|debug_rank(\d+))_(\d{8}_\d{6})(?:_[^/]*?)?\.log")
OLDER = re.compile(r"\.\d+\.log")
LARGEST = 64 << 20  # bytes of one log that are read, the newest: only a training's own output grows beyond that
PARTS = 64  # older parts of a log that are looked for
HEAD = 64  # bytes by which a file is known that was cut to nothing and has grown again


class Log(NamedTuple):
    """One log of a run: its newest file; older parts lie beside it."""

    path: str
    kind: str  # train, debug, output
    rank: int | None
    stamp: str


def logs_of(folder: str) -> list[Log]:
    """The newest of each kind: a run that was written again has more than one."""
    found = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            known = NAME.fullmatch(name)
            if known is not None and not OLDER.search(name):
                rank = None if known[2] is None else int(known[2])
                found.append(Log(os.path.join(folder, name), known[1].partition("_")[0], rank, known[3]))
    newest = {kind: max(one.stamp for one in found if one.kind == kind) for kind in {one.kind for one in found}}
    return [one for one in found if one.stamp == newest[one.kind]]


class Follower:
    """Reads one log from its beginning on, whole lines only."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.left_out = ""  # what was not read, and why
        self._at = 0
        self._head = b""
        self._rest = b""

    def everything(self) -> list[str]:
        """What there is so far, with the older parts in front; of what is too large, the end."""
        parts: list[bytes] = []
        number, room = 1, LARGEST
        while number <= PARTS and os.path.lexists(older(self.path, number)):
            part = self._read(older(self.path, number), 0, room)
            parts.insert(0, part)
            room -= len(part)
            number += 1
        size = self._size()
        if size > LARGEST:
            self._at = size - LARGEST
            self.left_out = f"{self.path} is shown from its end: it has {size:,} bytes"
        return _lines(b"".join(parts).removesuffix(b"\n")) + self.new()

    def new(self) -> list[str]:
        """Lines that were added since the last time."""
        head = self._read(self.path, 0, HEAD)
        before = b""
        if not head.startswith(self._head) or self._size() < self._at:  # it was set aside
            before = self._read(older(self.path, 1), self._at, LARGEST)
            self._at = 0
        self._head = head
        data = self._read(self.path, self._at, LARGEST)
        self._at += len(data)
        whole, _, self._rest = (self._rest + before + data).rpartition(b"\n")
        self._rest = self._rest[-LARGEST:]  # a line without an end
        return _lines(whole)

    def _size(self) -> int:
        try:
            return os.lstat(self.path).st_size
        except OSError:
            return 0

    def _read(self, path: str, at: int, most: int) -> bytes:
        try:
            with os.fdopen(open_plain(path), "rb") as file:
                file.seek(at)
                return file.read(most)
        except FileNotFoundError:
            return b""
        except OSError as error:
            self.left_out = left_out(path, error)
            return b""


def has_ended(lines: list[str]) -> bool:
    """One of them is the last line of a log of ours. What a user says may end with the same words, after a marker."""
    return any(_is_last(line) for line in lines if line.endswith(ENDING))


def _is_last(line: str) -> bool:
    found = read(line)
    return found is not None and (found.level, found.name, found.text) == (INFO, f"unstuck.{RUN}", ENDING)


def parsed(lines: list[str]) -> list[Read]:
    return [one for line in lines if (one := read(line)) is not None]


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n") if data else []
