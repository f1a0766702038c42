"""`unstuck.log_to`: hands the run's log lines to the user's own `logging` set-up.

The lines are read from the log that the watcher writes. So the training formats nothing and pays nothing with a step;
what it gets is one thread, and only if it asks for it.
"""

from __future__ import annotations

import functools
import logging
import os
import threading

from .files import SEVERITY, Read
from .reading import Follower, has_ended, logs_of, parsed

EVERY = 0.5  # seconds: the log is not written more often
FORK_WAITS = 1.0  # seconds at the most that a fork waits for a handler that is at work


class Handing:
    """Lines on their way to a handler, until the run ends, or `stop()`."""

    def __init__(self, target: logging.Handler | logging.Logger, folder: str, rank: int | None) -> None:
        self._target, self._folder, self._rank = target, folder, rank
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unstuck log_to", daemon=True)

    def start(self) -> Handing:
        self._thread.start()
        return self

    def stop(self, timeout: float = 2.0) -> None:
        self._stopped.set()
        self._thread.join(timeout)

    def wait(self, timeout: float | None = None) -> None:
        """Until the run has ended. In the training itself that would be for ever."""
        self._thread.join(timeout)

    def _run(self) -> None:
        follower: Follower | None = None
        while True:
            last = self._stopped.wait(EVERY)
            follower = follower or self._find()
            lines = follower.new() if follower is not None else []
            for one in parsed(lines):
                with _gate:
                    hand(self._target, one)
            if last or has_ended(lines):
                return

    def _find(self) -> Follower | None:
        kind = "train" if self._rank is None else "debug"
        found = [one for one in logs_of(self._folder) if one.kind == kind and one.rank == self._rank]
        return Follower(found[0].path) if found else None


def hand(target: logging.Handler | logging.Logger, line: Read) -> None:
    level = SEVERITY[line.level]
    if isinstance(target, logging.Logger):
        if not target.isEnabledFor(level):
            return
    elif level < target.level:
        return
    record = logging.LogRecord(line.name, level, "unstuck", 0, line.text, None, None)
    record.created, record.msecs = line.at, (line.at % 1) * 1000
    target.handle(record)


def log_to(
    handler: logging.Handler | logging.Logger, run: str | None = None, *, rank: int | None = None
) -> Handing | None:
    """Give each line of a run's log to a `logging` handler or logger, with its own time, level and name.

    In a recorded training: the log of this process's rank. From anywhere else, name the run folder: its main log, or
    that of a rank. None, and nothing happens, where nothing records.
    """
    given = os.environ.get("UNSTUCK_FOLDER") if run is None else run
    if not given or (run is None and os.environ.get("UNSTUCK") == "0"):
        return None
    if rank is None and run is None:
        known = os.environ.get("RANK", "")
        rank = int(known) if known.isdigit() else 0
    return Handing(handler, os.path.join(given, "logs"), rank).start()


def _after_fork_in_parent() -> None:
    if _gate._is_owned():  # type: ignore[attr-defined]  # it had not to be given up for a handler that hangs
        _gate.release()


# A handler at work holds its stream's lock, which a fork would take along for ever: so no fork comes in between.
# Nothing of Python is run before the fork: what a signal handler raises inside such a callback is lost.
_gate = threading.RLock()
os.register_at_fork(
    before=functools.partial(_gate.acquire, True, FORK_WAITS),  # noqa: FBT003  (a lock takes no keywords)
    after_in_parent=_after_fork_in_parent,
    after_in_child=_gate._at_fork_reinit,  # type: ignore[attr-defined]
)
