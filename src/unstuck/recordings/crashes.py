"""The Python stack that a process left in its last moment, when native code crashed it."""

from __future__ import annotations

import re
from pathlib import Path

from ..model.places import Place

FATAL = "Fatal Python error: "
THREAD = re.compile(r"^(Current thread|Thread) 0x")
FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def crash_of(recording: Path) -> tuple[list[Place], list[Place]]:
    """Of the thread that crashed, the innermost call last; or, where it was none of Python's, of the main thread.

    The first of the two, or the second. Both are empty where it did not crash, or nobody could write it down.
    """
    try:
        said = recording.with_suffix(".stacks").read_text("utf-8", "replace")
    except OSError:
        return [], []
    crashed: list[Place] | None = None
    newest: list[Place] = []
    for line in said.partition(FATAL)[2].splitlines():
        if THREAD.match(line):
            newest = []
            crashed = newest if line.startswith("Current") else crashed
        elif frame := FRAME.match(line):
            newest.insert(0, Place(frame[1], int(frame[2]), frame[3]))
    return (crashed, []) if crashed is not None else ([], newest)  # the main thread is the oldest: it comes last
