"""accelerate's ways of waiting for each other: `wait_for_everyone`, `main_process_first`, `gather_for_metrics`.

Whatever name they are called by, the waiting ones end in `PartialState`.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import update_wrapper
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace, together
from ..failures.collectives import spanned, spanned_generator
from ..format import Kind

MODULES = ("accelerate.state", "accelerate.accelerator")
OWES = (Kind.SPAN,)
BLOCKS = ("main_process_first", "local_main_process_first")


def install(module: ModuleType, guard: Guard) -> Undo:
    if module.__name__ == "accelerate.accelerator":
        return _call(module.Accelerator, "gather_for_metrics", guard)
    state = module.PartialState
    return together(_call(state, "wait_for_everyone", guard), *(_block(state, name, guard) for name in BLOCKS))


def _call(owner: object, name: str, guard: Guard) -> Undo:
    return replace(owner, name, lambda original: spanned(original, name, guard))


def _block(owner: object, name: str, guard: Guard) -> Undo:
    """A context manager made of a generator: the generator is what can be wrapped."""

    def make(original: Any) -> Any:
        generator = original.__wrapped__
        return contextmanager(update_wrapper(spanned_generator(generator, name, guard), generator))

    return replace(owner, name, make)
