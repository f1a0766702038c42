"""One event that goes through the callbacks of transformers' Trainer: the time that each of them takes.

The handler's list of callbacks is, for this one event, a list that notices when the next is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .callbacks import Hook, begin, does_nothing
from .guard import Guard
from .trainers import function_of


class Timed(list):  # type: ignore[type-arg]
    """The callbacks. What is added or removed meanwhile is so for good."""

    def __init__(self, handler: Any, event: str, guard: Guard) -> None:
        self.handler, self.event, self.guard = handler, event, guard
        self.own: Any = None
        self.now: Hook | None = None
        known = getattr(handler, "callbacks", None)
        super().__init__(known if type(known) is list else ())
        if type(known) is list:
            self.own, handler.callbacks = known, self

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            self.guard.quietly(self._next, one)
            yield one
        self.guard.quietly(self._next, None)

    def _next(self, callback: object) -> None:
        """Who had the turn so far has done."""
        self.fails(None)
        function = None if callback is None else function_of(callback, self.event)
        if function is not None and not does_nothing(function):
            self.now = begin(callback, self.event, function)

    def fails(self, error: BaseException | None) -> None:
        now, self.now = self.now, None
        if now is not None:
            now.ends(error)

    def close(self) -> None:
        self.fails(None)
        if self.own is not None and self.handler.callbacks is self:
            self.own[:] = super().copy()
            self.handler.callbacks = self.own
