"""`Join`, in which ranks may have different numbers of batches; `DistributedDataParallel.join` is one, too."""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, after, around, replace, together
from ..failures.collectives import Span, begin_span
from ..format import Kind

MODULES = ("torch.distributed.algorithms.join",)
OWES = (Kind.SPAN,)
NAME = "Join"


def install(module: ModuleType, guard: Guard) -> Undo:
    module.Join._unstuck = None  # what every one has until it is entered; it stays, should a wrapper outlive its undo
    return together(
        replace(module.Join, "__enter__", lambda original: after(original, guard, _entered)),
        replace(
            module.Join, "__exit__", lambda original: around(original, guard, _left, measure=_over, fail=Span.fails)
        ),
    )


def _entered(frame: FrameType, args: Any, _kwargs: Any, _entered: Any) -> None:
    args[0]._unstuck = begin_span(NAME, frame)


def _left(_frame: FrameType, args: Any, _kwargs: Any) -> Span | None:
    """In its `__exit__` it waits, and takes part in what the others do, until they have come to their ends."""
    join = args[0]
    span: Span | None = join._unstuck
    join._unstuck = None
    return span


def _over(span: Span, args: Any, _kwargs: Any, _result: Any) -> None:
    span.ends(failed=len(args) > 1 and args[1] is not None)
