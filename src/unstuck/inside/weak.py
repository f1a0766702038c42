"""Facts about objects of the user's, by identity, for as long as they live; no hash or comparison of theirs is called.

No weak reference has a callback here: what a signal handler raises inside one is lost to the user. What is gone is
noticed when the next object comes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ByIdentity(Generic[T]):
    def __init__(self, when_gone: Callable[[T], None] | None = None) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], T]] = {}
        self._when_gone = when_gone

    def __len__(self) -> int:
        return len(self._known)

    def get(self, owner: object) -> T | None:
        found = self._known.get(id(owner))
        if found is not None and found[0]() is owner:
            return found[1]
        self._forget_gone()
        return None

    def set(self, owner: object, value: T) -> None:
        self._forget_gone()
        self._known[id(owner)] = (weakref.ref(owner), value)

    def owners(self) -> list[Any]:
        living = [known() for known, _ in list(self._known.values())]
        return [owner for owner in living if owner is not None]

    def _forget_gone(self) -> None:
        for number, (known, value) in list(self._known.items()):
            if known() is None and self._known.pop(number, None) is not None and self._when_gone is not None:
                self._when_gone(value)
