"""DistributedDataParallel: with what it was made, and the names of the parameters that its messages number.

Its constructor waits for the other ranks, which compare their parameters in it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

from ..core.frames import user_line
from ..core.guard import Guard, Undo, around, replace
from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import clock
from ..failures.collectives import Span, begin_span
from ..format import ROLE_MAIN, Kind

MODULES = ("torch.nn.parallel.distributed",)
OWES = (Kind.WRAPPED, Kind.SPAN)
NAME = "DistributedDataParallel"
NAMES = 200  # of parameters
WRAPPED = 8  # models: one that wraps them anew all the time must not fill the table of strings


def install(module: ModuleType, guard: Guard) -> Undo:
    make = functools.partial(around, guard=guard, begin=_begin, measure=_made, fail=_failed)
    return replace(module.DistributedDataParallel, "__init__", make)


def _begin(frame: FrameType, _args: Any, _kwargs: Any) -> tuple[Span, FrameType, int] | None:
    start = clock()
    span = begin_span(NAME, frame)
    return None if span is None else (span, frame, start)


def _failed(begun: tuple[Span, FrameType, int], _: Exception) -> None:
    begun[0].fails()


def _made(begun: tuple[Span, FrameType, int], args: Any, _kwargs: Any, _result: Any) -> None:
    span, frame, start = begun
    span.ends()
    _wrapped(args[0], frame, start)


def _wrapped(model: Any, frame: FrameType, start: int) -> None:
    recorder = process.recording(ROLE_MAIN)
    if recorder is None or len(_count) >= WRAPPED:
        return
    now = clock()
    _count.append(None)
    own = attributes_of(model)
    names = list(parameter_names((own.get("_modules") or {}).get("module"), own.get("parameters_to_ignore") or ()))
    facts = {
        "kind": type(model).__name__,
        "where": user_line(frame),
        "find_unused_parameters": own.get("find_unused_parameters") is True,
        "static_graph": own.get("static_graph") is True,
        "parameters": len(names),
        "names": names[:NAMES],
    }
    text = recorder.intern(json.dumps(facts, ensure_ascii=False))
    recorder.note(Kind.WRAPPED, 0, start, now - start, text)
    recorder.cost(clock() - now)


def parameter_names(model: Any, ignored: Any) -> Iterator[str]:
    """In the order in which DDP numbers them: those that have a gradient, module by module, each once."""
    met: set[int] = set()
    for path, module in _modules(model, "", set()):
        for name, parameter in (attributes_of(module).get("_parameters") or {}).items():
            if parameter is None or not parameter.requires_grad or id(parameter) in met:
                continue
            if f"{path}.{name}" not in ignored:
                met.add(id(parameter))
                yield f"{path}.{name}".lstrip(".")


def _modules(module: Any, path: str, met: set[int]) -> Iterator[tuple[str, Any]]:
    if module is None or id(module) in met:
        return
    met.add(id(module))
    yield path, module
    for name, part in (attributes_of(module).get("_modules") or {}).items():
        yield from _modules(part, f"{path}.{name}".lstrip("."), met)


_count: list[None] = []
