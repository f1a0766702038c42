"""Facts about objects of the user's, by identity, for as long as they live; no hash or comparison of theirs is called."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ByIdentity(Generic[T]):
    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], T]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, owner: object) -> T | None:
        found = self._known.get(id(owner))
        return found[1] if found is not None and found[0]() is owner else None

    def set(self, owner: object, value: T) -> None:
        number = id(owner)
        self._known[number] = (weakref.ref(owner, lambda _: self._known.pop(number, None)), value)

    def values(self) -> list[T]:
        return [value for _, value in list(self._known.values())]
