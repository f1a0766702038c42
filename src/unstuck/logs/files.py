"""The log files: what the user asked of them, a line as it is written and read back, and a file that keeps its size."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from ..errors import UserError
from ..inside.format import SAMPLE_TIMES
from ..inside.redaction import redacted
from ..safe_files import append_private, move, read_plain, write_private
from ..wording.printable import printable

LEVEL, EVERY, VALIDATION_EVERY = "UNSTUCK_LOG_LEVEL", "UNSTUCK_LOG_EVERY", "UNSTUCK_LOG_VALIDATION_EVERY"
LEVELS = ("DEBUG", "INFO")
MOST = 1_000_000_000
DEBUG, INFO, WARNING, ERROR = "DEBUG", "INFO", "WARNING", "ERROR"
SEVERITY = {DEBUG: 10, INFO: 20, WARNING: 30, ERROR: 40}  # the numbers of Python's logging
STARTING, ENDING = "Starting training...", "The log ends here."
RUN = "run"  # the name of lines about the run itself, which hold no text of the user's but after a word of ours
LONGEST = 2000  # characters of a message
WRITTEN = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] \[(DEBUG|INFO|WARNING|ERROR)\] \[([\w.]+)\] (.*)", re.DOTALL
)
WHOSE = re.compile(r"(?:\[Rank (\d+)(?:/\d+)?(?: Worker (\d+)(?:/\d+)?)?\] )")
LIMIT = 4 << 20  # bytes: then what there is moves into an older file
KEPT = 3  # older files of each: four times the limit at the most, 16 MiB for each rank and for the main log


class Settings(NamedTuple):
    """Nothing of this changes what is recorded, or what it costs the training."""

    level: str = "DEBUG"  # INFO: no progress of batches and samples
    every: int = 100  # training batches between two lines
    validation_every: int = 20
    samples: bool = False  # a line about every sample and stage; that one does change what is recorded
    quiet: bool = False  # the training's own output goes into a file


def from_variables(variables: Mapping[str, str]) -> Settings:
    usual = Settings()
    return Settings(
        level=level(variables.get(LEVEL) or usual.level, LEVEL),
        every=number(variables.get(EVERY) or str(usual.every), EVERY),
        validation_every=number(variables.get(VALIDATION_EVERY) or str(usual.validation_every), VALIDATION_EVERY),
        samples=variables.get(SAMPLE_TIMES, "") not in ("", "0"),
    )


def level(text: str, name: str) -> str:
    if text.upper() not in LEVELS:
        raise UserError(f"{name} is {text!r}", f"it can be {' or '.join(LEVELS)}")
    return text.upper()


def number(text: str, name: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST:
        raise UserError(f"{name} is {text!r}", "it is a number of batches, 1 or more")
    return int(text)


class Line(NamedTuple):
    """What happened, and when: seconds since the epoch. `key` lines stay on a quiet console."""

    at: float
    level: str
    name: str  # who says it, as a logger's name
    text: str
    key: bool = False
    main: bool = True  # it belongs into the run's main log as well, if it is no DEBUG line


class Read(NamedTuple):
    """A line as it stands in a log."""

    at: float
    level: str
    name: str
    text: str
    rank: int | None
    worker: int | None


def written(line: Line) -> str:
    second = int(line.at)
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
    text = " | ".join(printable(one.strip()) for one in redacted(line.text).splitlines() if one.strip())
    return f"[{day},{int((line.at - second) * 1000):03d}] [{line.level}] [unstuck.{line.name}] {text[:LONGEST]}\n"


def read(text: str) -> Read | None:
    """None: it is no line of ours."""
    found = WRITTEN.match(text.rstrip("\n"))
    if found is None:
        return None
    day, fraction, level, name, said = found.groups()
    at = time.mktime(time.strptime(day, "%Y-%m-%d %H:%M:%S")) + int(fraction) / 1000
    rank, worker = whose.groups() if (whose := WHOSE.search(said)) else (None, None)
    return Read(at, level, name, said, _number(rank), _number(worker))


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


class LogFile:
    """Older parts are called NAME.1.log (the newest of them), NAME.2.log and so on, so that `NAME*.log` means all.

    They are copied away and the file is cut to nothing, not renamed: a `tail -f` that is running goes on.
    """

    def __init__(self, path: str, limit: int = LIMIT, kept: int = KEPT) -> None:
        """Raises OSError where the file cannot be made."""
        self.path = path
        self.failed: OSError | None = None  # why the newest write came to nothing
        self._limit, self._kept = limit, kept
        self._dropped = 0  # bytes
        self._fd = append_private(path)
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        """All of it, or nothing is said: the disk may be full, and the run goes on."""
        if self._size and self._size + len(data) > self._limit:
            self._rotate()
        if self._dropped:
            data = f"[unstuck] {self._dropped:,} bytes are missing here: {self._why()}\n".encode() + data
        done = self._put(data)
        if done < len(data):
            self._dropped += len(data) - done
        elif self._dropped:
            self._dropped, self.failed = 0, None

    def _put(self, data: bytes) -> int:
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError as error:
            self.failed = error
        self._size += done
        return done

    def _rotate(self) -> None:
        try:
            for number in range(self._kept - 1, 0, -1):
                with suppress(FileNotFoundError):
                    move(older(self.path, number), older(self.path, number + 1))
            write_private(older(self.path, 1), read_plain(self.path))
        except OSError as error:  # no room for a copy: the newest lines are worth more than the oldest
            self.failed = error
            self._dropped += self._size
        try:
            os.ftruncate(self._fd, 0)
        except OSError as error:
            self.failed = error
        self._size = os.fstat(self._fd).st_size

    def _why(self) -> str:
        return (self.failed and self.failed.strerror) or "they could not be written"

    def close(self) -> None:
        os.close(self._fd)


def older(path: str, number: int) -> str:
    return f"{path.removesuffix('.log')}.{number}.log"


def stamp(at: float) -> str:
    """The time in a log's name: runs do not overwrite each other."""
    return time.strftime("%Y%m%d_%H%M%S", time.localtime(at))
