"""A copy of this process from before it has loaded anything: so is a training's main process when its workers start.

What a process has loaded and freed again leaves its allocator with other holes, and workers that are forked with these
grow less or more. With a shuffle buffer, they came to 229 MiB in a training and from such a copy; to 202, 172 and 146,
one after the other, where their parent had loaded a little; to 310 where it had loaded samples. Nor are they recorded:
the small things that a recording keeps lie between the user's, and with them the same worker took 72 to 298 MiB.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

from torch.multiprocessing.spawn import start_processes

Ask = Callable[..., None]


@contextmanager
def copied(work: Callable[..., None]) -> Iterator[Ask]:
    """Gives a function that has `work` done by a copy of the copy, and raises what it raised. Unasked, it just ends."""
    here, there = multiprocessing.Pipe()
    copy = start_processes(_waiting, (there, here, work), 1, join=False, start_method="fork")  # type: ignore[no-untyped-call]
    there.close()

    def ask(*words: Any) -> None:
        try:
            here.send(words)
            here.recv()
        except (EOFError, OSError):
            while not copy.join():  # it raises what the copy has failed with
                pass
            raise

    try:
        yield ask
    finally:
        here.close()


def _waiting(_: int, there: Connection, here: Connection, work: Callable[..., None]) -> None:
    here.close()  # or it would not see that the other side has ended
    _workers_unrecorded()
    with suppress(EOFError):
        while True:
            words = there.recv()
            start_processes(_working, (work, words), 1, start_method="fork")  # type: ignore[no-untyped-call]
            there.send("done")


def _working(_: int, work: Callable[..., None], words: tuple[Any, ...]) -> None:
    work(*words)


def _workers_unrecorded() -> None:
    inside = sys.modules.get("_unstuck_inside.process")
    if inside is not None:
        inside.process.folder = None
