"""One line of a log: `[time] [LEVEL] [name] message`, written and read back."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from ..inside.redaction import redacted
from ..wording.printable import printable

DEBUG, INFO, WARNING, ERROR = "DEBUG", "INFO", "WARNING", "ERROR"
SEVERITY = {DEBUG: 10, INFO: 20, WARNING: 30, ERROR: 40}  # the numbers of Python's logging
STARTING, ENDING = "Starting training...", "The log ends here."
RUN = "run"  # the name of lines about the run itself, which hold no text of the user's but after a word of ours
LONGEST = 2000  # characters of a message
WRITTEN = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] \[(DEBUG|INFO|WARNING|ERROR)\] \[([\w.]+)\] (.*)", re.DOTALL
)
WHOSE = re.compile(r"(?:\[Rank (\d+)(?:/\d+)?(?: Worker (\d+)(?:/\d+)?)?\] )")


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
