"""The Python stack that a process left in its last moment, when native code crashed it."""

from __future__ import annotations

import re
from pathlib import Path

from ..evidence.basics import Place
from ..safe_files import read_plain

LARGEST = 16 << 20  # bytes: stacks of 100 threads are a fiftieth of that, and are asked for now and then
FATAL = "Fatal Python error: "
THREAD = re.compile(r"^(Current thread|Thread) 0x")
OURS = "/unstuck/inside/"  # the recorder's own calls around the user's: nothing crashes in them
FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def crash_of(stacks: Path) -> tuple[list[Place], list[Place]]:
    """Of the thread that crashed, the innermost call last; or, where it was none of Python's, of the main thread.

    The first of the two, or the second. Both are empty where it did not crash, or nobody could write it down. Raises
    OSError where it cannot be read.
    """
    try:
        said = read_plain(stacks, largest=LARGEST).decode("utf-8", "replace")
    except FileNotFoundError:
        return [], []
    crashed: list[Place] | None = None
    newest: list[Place] = []
    for line in said.partition(FATAL)[2].splitlines():
        if THREAD.match(line):
            newest = []
            crashed = newest if line.startswith("Current") else crashed
        elif (frame := FRAME.match(line)) and OURS not in frame[1]:
            newest.append(Place(frame[1], int(frame[2]), frame[3]))
    if crashed is not None:
        return crashed[::-1], []
    return [], newest[::-1]  # the main thread is the oldest: it comes last
