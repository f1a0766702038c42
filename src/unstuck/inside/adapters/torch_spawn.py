"""`torch.multiprocessing.spawn`: its children are ranks, and who waits for them is their launcher."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from .. import format as f
from .. import ranks
from ..guard import Guard, clean
from ..patching import Undo, replace, replace_everywhere, together
from ..process import process

MODULES = ("torch.multiprocessing.spawn",)
OWES = ()


def install(module: ModuleType, guard: Guard) -> Undo:
    return together(
        replace(module, "_wrap", lambda original: _child(original, guard)),
        replace_everywhere(module, "start_processes", lambda original: _parent(original, guard)),
    )


def _child(original: Any, guard: Guard) -> Any:
    def _wrap(function: Any, number: int, *rest: Any) -> None:
        guard.quietly(_is_rank, number)
        try:
            original(function, number, *rest)
        finally:  # by an exception it leaves as SystemExit
            guard.quietly(process.conclude)

    return _wrap


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
