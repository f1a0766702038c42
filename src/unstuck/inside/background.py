"""`unstuck.nonblocking(logger)`: a logger's calls are made by a thread of its own, and the training goes on.

It is asked for, never done unasked. What is handed over is kept in order in a bounded queue. A call holds the training
up only while the queue is full, and then for no longer than its limit; what finds no room, fails, or is still waiting
when the process ends is counted and told, never dropped in silence.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType
from typing import Any

from .format import Kind
from .guard import is_ours
from .loggers import set_up
from .process import process
from .queued import Queued, copied
from .recorder import clock

WAITED = ("flush", "close", "finish")  # after these one expects everything to be there
SHOWN = 256  # calls between two words in the recording


class NonBlocking:
    """Made by `unstuck.nonblocking`, which says what the limits are."""

    def __init__(self, logger: Any, limit: float, last: float, size: int) -> None:
        own = {"logger": logger, "_limit": limit, "_last": last, "_size": size, "_queued": None, "_shown": 0}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self.logger, name)
        if not callable(value) or isinstance(value, type):
            return value
        if name in WAITED:
            return lambda *args, **kwargs: self._wait(name, args, kwargs)
        return lambda *args, **kwargs: self._hand(value, args, kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.logger, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._hand(self.logger, args, kwargs)

    def __enter__(self) -> NonBlocking:  # noqa: PYI034  (typing.Self came with Python 3.11)
        enter = getattr(self.logger, "__enter__", None)
        if enter is not None:
            enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave = getattr(type(self.logger), "__exit__", None)
        if leave is None:
            self.close()
            return
        self._hand(leave, (self.logger, kind, error, trace), {})
        self._settle()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has a queue of its own."""
        return NonBlocking, (self.logger, self._limit, self._last, self._size)

    def __repr__(self) -> str:
        return f"unstuck.nonblocking({self.logger!r})"

    def flush(self, *args: Any, **kwargs: Any) -> bool:
        """Wait until everything has reached the logger. False: not within the limit."""
        return self._wait("flush", args, kwargs)

    def close(self, *args: Any, **kwargs: Any) -> bool:
        return self._wait("close", args, kwargs)

    @property
    def undelivered(self) -> int:
        queued = self._queued
        return 0 if queued is None else queued.undelivered()

    def _wait(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """The logger's own, if it has such a one, after everything that was handed over before."""
        method = getattr(self.logger, name, None)
        if callable(method):
            self._hand(method, args, kwargs)
        return self._settle()

    def _settle(self) -> bool:
        queued = self._queued
        if queued is None or queued.pid != os.getpid():
            return True
        done: bool = queued.drained(self._last)
        self._show(queued)
        return done

    def _hand(self, call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        queued = self._queued
        if queued is None or queued.pid != os.getpid():  # the first call, or the first in a forked child
            queued = self._begin()
        taken = queued.put(call, [copied(one) for one in args], {name: copied(one) for name, one in kwargs.items()})
        if not taken or queued.taken - self._shown >= SHOWN:
            self._show(queued)

    def _begin(self) -> Queued:
        queued = Queued(self._limit, self._size, self._name())
        object.__setattr__(self, "_queued", queued)
        object.__setattr__(self, "_shown", 0)
        try:
            set_up(self._name(), {"mode": "in a thread"}, sys._getframe(2))
        except Exception as error:
            if not is_ours(error):
                raise
        atexit.register(self._at_exit, queued)
        util = sys.modules.get("multiprocessing.util")
        if util is not None:  # children of multiprocessing end without `atexit`
            util.Finalize(None, self._at_exit, args=(queued,), exitpriority=100)
        return queued

    def _name(self) -> str:
        kind = self.logger if callable(self.logger) and hasattr(self.logger, "__name__") else type(self.logger)
        return f"unstuck.nonblocking({getattr(kind, '__name__', kind)})"

    def _at_exit(self, queued: Queued) -> None:
        if queued.pid == os.getpid() and not queued.told:
            queued.drained(self._last)
            self._show(queued)
            queued.tell()

    def _show(self, queued: Queued) -> None:
        """Into the recording, if there is one."""
        object.__setattr__(self, "_shown", queued.taken)
        recorder = process.recorder
        if recorder is None:
            return
        try:
            key = recorder.intern(self._name())
            slot = recorder.board_slot(Kind.LOGGER, key)
            recorder.board(slot, Kind.LOGGER, key, clock(), 0, 0, queued.taken, queued.undelivered())
        except Exception as error:
            if not is_ours(error):
                raise
