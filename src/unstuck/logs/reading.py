"""Finds a run's log files and reads them, also while they are written and set aside."""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

from .files import older
from .line import ENDING, Read, read

NAME = re.compile(r"(train|output|debug_rank(\d+))_(\d{8}_\d{6})(?:_[^/]*?)?\.log")
OLDER = re.compile(r"\.\d+\.log")
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
        self._at = 0
        self._head = b""
        self._rest = b""

    def everything(self) -> list[str]:
        """What there is so far, with the older parts in front."""
        parts: list[bytes] = []
        number = 1
        while os.path.exists(older(self.path, number)):
            parts.insert(0, _read(older(self.path, number), 0))
            number += 1
        return _lines(b"".join(parts).removesuffix(b"\n")) + self.new()

    def new(self) -> list[str]:
        """Lines that were added since the last time."""
        head = _read(self.path, 0, HEAD)
        before = b""
        if not head.startswith(self._head) or self._size() < self._at:  # it was set aside
            before = _read(older(self.path, 1), self._at)
            self._at = 0
        self._head = head
        data = _read(self.path, self._at)
        self._at += len(data)
        whole, _, self._rest = (self._rest + before + data).rpartition(b"\n")
        return _lines(whole)

    def _size(self) -> int:
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0


def has_ended(lines: list[str]) -> bool:
    return any(line.endswith(ENDING) for line in lines)


def parsed(lines: list[str]) -> list[Read]:
    return [one for line in lines if (one := read(line)) is not None]


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n") if data else []


def _read(path: str, at: int, most: int = -1) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(at)
            return file.read(most)
    except OSError:
        return b""
