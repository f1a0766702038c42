"""accelerate's `prepare_data_loader`, which `Accelerator.prepare` calls for every loader: what it was and became."""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, replace_everywhere
from ..format import Kind
from ..frameworks import accelerate

MODULES = ("accelerate.data_loader",)
OWES = (Kind.PREPARED,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace_everywhere(module, "prepare_data_loader", lambda original: _prepare(original, guard))


def _prepare(original: Any, guard: Guard) -> Any:
    code = original.__code__
    names = code.co_varnames[: code.co_argcount]
    usual = original.__defaults__ or ()
    defaults = dict(zip(names[len(names) - len(usual) :], usual, strict=True))

    def begin(frame: FrameType, args: Any, kwargs: Any) -> accelerate.Preparing | None:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        return accelerate.begin(given.get(names[0]), given, frame)

    return around(original, guard, begin, measure=_done)


def _done(begun: accelerate.Preparing, _args: Any, _kwargs: Any, prepared: Any) -> None:
    begun.done(prepared)
