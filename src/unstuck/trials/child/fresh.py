"""A copy of this process from before it has loaded anything: so is a training's main process when its workers start.

What a process has loaded and freed again leaves its allocator with other holes, and workers that are forked with these
grow less or more. With a shuffle buffer, they came to 229 MiB in a training and from such a copy; to 202, 172 and 146,
one after the other, where their parent had loaded a little; to 310 where it had loaded samples. Nor are they recorded:
the small things that a recording keeps lie between the user's, and with them the same worker took 72 to 298 MiB.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

FORKED = get_context("fork")
PATIENCE = 20.0  # seconds: nobody sees progress there, and after 30 a trial counts as stuck
Ask = Callable[..., bool]


@contextmanager
def copied(work: Callable[..., None]) -> Iterator[Ask]:
    """Gives a function that has `work` done by a copy of the copy, and tells if it was done in time. Then it ends."""
    here, there = FORKED.Pipe()
    FORKED.Process(target=_waiting, args=(there, here, work)).start()
    there.close()

    def ask(*words: Any) -> bool:
        if here.closed:
            return False
        here.send(words)
        if here.poll(PATIENCE):
            return bool(here.recv())
        here.close()
        return False

    try:
        yield ask
    finally:
        here.close()


def _waiting(there: Connection, here: Connection, work: Callable[..., None]) -> None:
    here.close()  # or it would not see that the other side has ended
    _unrecorded()
    try:
        while True:
            there.send(_done(work, there.recv(), there))
    except (EOFError, OSError):
        return


def _done(work: Callable[..., None], words: tuple[Any, ...], asked: Connection) -> bool:
    """By a copy of its own, so that this one stays as it is, whatever becomes of that."""
    here, there = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=_working, args=(there, work, words))
    process.start()
    there.close()
    try:
        if asked in wait([here, asked]):  # nobody waits for it any more
            os.killpg(process.pid or 0, signal.SIGKILL)
        return bool(here.recv())
    except EOFError:
        return False
    finally:
        process.join()


def _working(there: Connection, work: Callable[..., None], words: tuple[Any, ...]) -> None:
    os.setpgid(0, 0)  # with its workers, it can be ended at once
    try:
        work(*words)
    except Exception:  # noqa: BLE001  (whoever asked does it again, where it is recorded what fails)
        there.send(False)  # noqa: FBT003
    else:
        there.send(True)  # noqa: FBT003


def _unrecorded() -> None:
    inside = sys.modules.get("_unstuck_inside.process")
    if inside is not None:
        inside.process.folder = None
