"""The Python stack that a process left in its last moment, when native code crashed it."""

from __future__ import annotations

import re
from pathlib import Path

from ..model.places import Place

FATAL = "Fatal Python error: "
THREAD = re.compile(r"^(Current thread|Thread) 0x")
FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


def crash_of(recording: Path) -> list[Place]:
    """Of the thread that crashed, the innermost call last. Empty: it did not crash, or nobody was there to write it."""
    try:
        said = recording.with_suffix(".stacks").read_text("utf-8", "replace")
    except OSError:
        return []
    found: list[Place] = []
    inside = False
    for line in said.partition(FATAL)[2].splitlines():
        if THREAD.match(line):
            if inside:
                break
            inside = line.startswith("Current")
        elif inside and (frame := FRAME.match(line)):
            found.insert(0, Place(frame[1], int(frame[2]), frame[3]))
    return found
