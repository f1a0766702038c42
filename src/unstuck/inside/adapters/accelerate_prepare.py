"""accelerate's `prepare_data_loader`, which `Accelerator.prepare` calls for every loader: what it was and became."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace_everywhere
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

    def prepare_data_loader(*args: Any, **kwargs: Any) -> Any:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        begun = guard.result(accelerate.begin, given.get(names[0]), given, sys._getframe(1))
        try:
            prepared = original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        if begun is not None:
            guard.quietly(begun.done, prepared)
        return prepared

    return prepare_data_loader
