"""`unstuck.nonblocking(logger)`: a logger's calls are made by a thread of its own, and the training goes on.

It is asked for, never done unasked. What is handed over is kept in order in a bounded queue. A call holds the training
up only while the queue is full, and then for no longer than its limit; what finds no room, fails, or is still waiting
when the process ends is counted and told, never dropped in silence.

A forked child has neither queue nor thread: it makes its own. Before a fork the thread is asked to stand between two
calls, so that no lock of the logger's is forked while it is held; for no longer than a call may hold the training up.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections import deque
from types import TracebackType
from typing import Any

from ..core.guard import is_ours
from ..core.process import process
from ..core.recorder import clock
from ..format import Kind
from .loggers import set_up

WAITED = ("flush", "close", "finish")  # after these one expects everything to be there
SHOWN = 256  # calls between two words in the recording

CONTAINERS: dict[type, Any] = {dict: dict.copy, list: list.copy, set: set.copy}
LONGEST = 300  # characters of a message
Call = tuple[Any, list[Any], dict[str, Any]]


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
        taken = queued.put(call, [_copied(one) for one in args], {name: _copied(one) for name, one in kwargs.items()})
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


class Queued:
    """Calls of one logger that wait, and what has become of the others."""

    def __init__(self, limit: float, size: int, name: str) -> None:
        self.pid = os.getpid()
        self.taken = self.refused = self.failed = 0
        self.told = False
        self.calling = threading.Lock()  # held while the logger is at work
        self.limit, self._size, self._name = limit, max(size, 1), name
        self._waiting: deque[Call] = deque()
        self._done = 0
        self._behind = False
        self._first = ""
        self._changed = threading.Condition()  # with a lock that a signal handler may take again
        self._thread: threading.Thread | None = None
        _alive.add(self)

    def put(self, call: Any, args: list[Any], kwargs: dict[str, Any]) -> bool:
        """False: there was no room, and none came within the limit. Then the next ones do not wait for it either."""
        with self._changed:
            if self._thread is None:
                self._begin()
            if len(self._waiting) >= self._size and not self._behind:
                self._changed.wait_for(lambda: len(self._waiting) < self._size, self.limit)
            self.taken += 1
            self._behind = len(self._waiting) >= self._size
            if self._behind:
                self.refused += 1
                return False
            self._waiting.append((call, args, kwargs))
            self._changed.notify_all()
        return True

    def drained(self, limit: float) -> bool:
        """Wait until all that wait now have reached the logger."""
        with self._changed:
            wanted = self.taken - self.refused
            return self._changed.wait_for(lambda: self._done >= wanted, limit)

    def undelivered(self) -> int:
        """Calls that failed, that found no room, and that still wait."""
        return self.refused + self.failed + self.taken - self.refused - self._done

    def tell(self) -> None:
        """Once, at the end: what the logger never got."""
        self.told = True
        waiting = self.taken - self.refused - self._done
        parts = [(self.refused, "found no room in time"), (waiting, "were still waiting"), (self.failed, "failed")]
        missing = [f"{count:,} {what}" for count, what in parts if count]
        if missing:
            first = f" (first: {self._first})" if self._first else ""
            _say(f"{self._name}: of {self.taken:,} calls {', '.join(missing)}{first}")

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                call, args, kwargs = self._waiting.popleft()
            with self.calling:
                try:
                    call(*args, **kwargs)
                except Exception as error:  # noqa: BLE001  (a logger may raise anything: it is told, and counted)
                    self._note(error)
            del call, args, kwargs
            with self._changed:
                self._done += 1
                self._changed.notify_all()

    def _note(self, error: Exception) -> None:
        self.failed += 1
        if not self._first:
            self._first = f"{type(error).__name__}: {error}"[:LONGEST]
            _say(f"{self._name}: a call failed: {self._first}; further ones are only counted")


def _copied(value: Any) -> Any:
    """What the training would change under the logger's hands: containers and tensors, also those directly in them."""
    copy = CONTAINERS.get(type(value))
    if copy is None:
        return _own(value)
    found = copy(value)
    if type(found) is dict:
        return {key: _own(one) for key, one in found.items()}
    return [_own(one) for one in found] if type(found) is list else found


def _own(value: Any) -> Any:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return value.detach().clone()
    if numpy is not None and isinstance(value, getattr(numpy, "ndarray", ())):
        return value.copy()
    copy = CONTAINERS.get(type(value))
    return value if copy is None else copy(value)


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # closed, or gone at the end of the interpreter
        return


def _before_fork() -> None:
    mine = [one for one in list(_alive) if one.pid == os.getpid()]
    _held.extend(one for one in mine if one.calling.acquire(timeout=one.limit))


def _after_fork() -> None:
    for one in _held:
        one.calling.release()
    _held.clear()


def _in_child() -> None:
    """Whatever was waiting is the parent's business."""
    _held.clear()
    _alive.clear()


_alive: weakref.WeakSet[Queued] = weakref.WeakSet()
_held: list[Queued] = []
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
