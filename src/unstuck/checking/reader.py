"""A process that reads files for a check: tasks come on stdin, what was seen goes to stdout."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import BinaryIO

from .messages import LENGTH, Message, Moved, Read, Task, packed, task_of
from .one import check
from .parent import die_with_parent

MEMORY = 4 << 30  # bytes of a reader, whatever a file asks for
EVERY = 0.2  # seconds between two words about progress


class Reader:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._moved = 0
        self._told = 0.0

    def work(self, task: Task) -> None:
        for path in task.paths:
            seen = check(path, task.wish, self._progress, task.expected.get(path, b""))
            self._tell()
            self._say(Read(seen.file, seen.digest, seen.digests.tobytes()))

    def _progress(self, count: int) -> None:
        self._moved += count
        if time.monotonic() - self._told > EVERY:
            self._tell()

    def _tell(self) -> None:
        self._say(Moved(self._moved))
        self._moved, self._told = 0, time.monotonic()

    def _say(self, message: Message) -> None:
        self._out.write(packed(message))
        self._out.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever sent us decides when it is over
    die_with_parent()
    with suppress(ValueError, OSError):  # a limit that is lower already
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    reader, tasks = Reader(sys.stdout.buffer), sys.stdin.buffer
    sys.stdout = sys.stderr  # nothing that a library prints may come between the messages
    with suppress(BrokenPipeError):  # nobody listens any more
        while length := tasks.read(LENGTH):
            reader.work(task_of(tasks.read(int.from_bytes(length, "little"))))
    os._exit(0)  # libraries with threads need not be waited for: nothing is left to do
