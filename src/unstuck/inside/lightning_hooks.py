"""Hooks that Lightning calls while a window is open: it asks its profiler around each of them, in all versions."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from .callbacks import Hook, begin, does_nothing
from .guard import Guard
from .holdings import attributes_of
from .variables import variables

OWNERS = ("callback", "pl_module")  # how the callers of the profiler name whose hook it is


class Window:
    """While it is open, the trainer's profiler has a `profile` of ours before its own."""

    __slots__ = ("mine", "profiler")

    def __init__(self, trainer: Any, guard: Guard) -> None:
        profiler = getattr(trainer, "profiler", None)
        own = attributes_of(profiler)
        self.profiler = self.mine = None
        if profiler is not None and "profile" not in own and hasattr(profiler, "profile"):
            self.profiler, self.mine = profiler, _profile(profiler.profile, guard)
            own["profile"] = self.mine

    def close(self) -> None:
        own = attributes_of(self.profiler)
        if self.mine is not None and own.get("profile") is self.mine:
            del own["profile"]


class Around:
    """What the profiler gave, with the hook's time around it."""

    __slots__ = ("begun", "guard", "inner")

    def __init__(self, inner: Any, begun: Hook, guard: Guard) -> None:
        self.inner, self.begun, self.guard = inner, begun, guard

    def __enter__(self) -> Any:
        return self.inner.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> Any:
        try:
            return self.inner.__exit__(kind, error, trace)
        finally:
            self.guard.quietly(self.begun.ends, error)


def _profile(original: Any, guard: Guard) -> Any:
    def profile(*args: Any, **kwargs: Any) -> Any:
        inner = original(*args, **kwargs)
        begun = guard.result(_hook, sys._getframe(1))
        return inner if begun is None else Around(inner, begun, guard)

    return profile


def _hook(frame: FrameType) -> Hook | None:
    """Whose hook it is, and which, as the caller has it. Those that do nothing are passed over: base classes' are."""
    known = variables(frame)
    name, function = known.get("hook_name"), known.get("fn")
    owner = next((known[one] for one in OWNERS if known.get(one) is not None), None)
    if type(name) is not str or owner is None or function is None or does_nothing(function):
        return None
    return begin(owner, name, function)
