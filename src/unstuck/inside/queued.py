"""A bounded queue of calls and the one thread that makes them.

A forked child has neither: it makes its own. Before a fork the thread is asked to stand between two calls, so that no
lock of the logger's is forked while it is held; for no longer than a call may hold the training up.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from typing import Any

CONTAINERS: dict[type, Any] = {dict: dict.copy, list: list.copy, set: set.copy}
LONGEST = 300  # characters of a message
Call = tuple[Any, list[Any], dict[str, Any]]


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


def copied(value: Any) -> Any:
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
