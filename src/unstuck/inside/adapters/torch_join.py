"""`Join`, in which ranks may have different numbers of batches; `DistributedDataParallel.join` is one, too."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace, together
from ..failures.collectives import Span, begin_span
from ..format import Kind

MODULES = ("torch.distributed.algorithms.join",)
OWES = (Kind.SPAN,)
NAME = "Join"


def install(module: ModuleType, guard: Guard) -> Undo:
    module.Join._unstuck = None  # what every one has until it is entered; it stays, should a wrapper outlive its undo
    return together(
        replace(module.Join, "__enter__", lambda original: _enter(original, guard)),
        replace(module.Join, "__exit__", lambda original: _exit(original, guard)),
    )


def _enter(original: Any, guard: Guard) -> Any:
    def __enter__(self: Any) -> Any:
        try:
            entered = original(self)
        except Exception as error:
            clean(error)
            raise
        self._unstuck = guard.result(begin_span, NAME, sys._getframe(1))
        return entered

    return __enter__


def _exit(original: Any, guard: Guard) -> Any:
    """Here it waits, and takes part in what the others do, until they have come to their ends."""

    def __exit__(self: Any, kind: Any, value: Any, trace: Any) -> Any:
        span: Span | None
        span, self._unstuck = self._unstuck, None
        try:
            result = original(self, kind, value, trace)
        except Exception as error:
            if span is not None:
                guard.quietly(span.fails)
            clean(error)
            raise
        if span is not None:
            guard.quietly(span.ends if kind is None else span.fails)
        return result

    return __exit__
