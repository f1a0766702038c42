"""`torch.multiprocessing.spawn`: its children are ranks, and who waits for them is their launcher."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from .. import format as f
from ..core import ranks
from ..core.guard import Guard, Undo, clean, replace, replace_everywhere, together
from ..core.process import process
from ..failures import exceptions

MODULES = ("torch.multiprocessing.spawn",)
OWES = (f.Kind.EXCEPTION,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return together(
        replace(module, "_wrap", lambda original: _child(original, guard)),
        replace_everywhere(module, "start_processes", lambda original: _parent(original, guard)),
    )


def _child(original: Any, guard: Guard) -> Any:
    def _wrap(function: Any, number: int, *rest: Any) -> None:
        guard.quietly(_is_rank, number)
        try:
            original(_Met(function, guard), number, *rest)
        finally:  # by an exception it leaves as SystemExit
            guard.quietly(process.conclude)

    return _wrap


class _Met:
    """torch catches what its function raises, and sends it to the parent: so it is met inside."""

    def __init__(self, function: Any, guard: Guard) -> None:
        self.function = function
        self.guard = guard

    def __call__(self, *args: Any) -> None:
        try:
            self.function(*args)
        except Exception as error:
            self.guard.quietly(exceptions.uncaught, error)
            clean(error)
            raise


def _is_rank(number: object) -> None:
    """Its number among those that were started together; its process group may know better."""
    if type(number) is int:
        ranks.known.local_rank = number
        if not os.environ.get("RANK"):
            ranks.known.rank = number
        process.recording(f.ROLE_MAIN)


def _parent(original: Any, guard: Guard) -> Any:
    names = original.__code__.co_varnames[: original.__code__.co_argcount]

    def start_processes(*args: Any, **kwargs: Any) -> Any:
        given = {"join": True, **dict(zip(names, args, strict=False)), **kwargs}
        if given["join"]:
            guard.quietly(_launches)
        try:
            return original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise

    return start_processes


def _launches() -> None:
    recorder = process.recorder
    if recorder is not None and recorder.words[f.H_ROLE] == f.ROLE_MAIN:
        recorder.words[f.H_ROLE] = f.ROLE_LAUNCHER
