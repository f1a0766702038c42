"""torchdata's nodes: `Loader` is a loader without a DataLoader, and mappers have workers of their own.

A graph of nodes is described as if it were one loader, from what lies open in their attributes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType, ModuleType
from typing import Any

from .. import format as f
from ..core.frames import user_line
from ..core.guard import Guard, Undo, after, around, clean, replace, replace_everywhere, together
from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import clock
from ..format import Kind
from ..loading.describe import type_name
from ..loading.iterators import FIRST
from ..loading.loaders import begin_pass, entry_of, making, note_resumed
from .torch_dataloader import iterate

MODULES = ("torchdata.nodes.loader", "torchdata.nodes._apply_udf")
OWES = (Kind.LOADER, Kind.ITERATOR, Kind.WORKER, Kind.WAIT, Kind.FIRST_WAIT, Kind.BODY, Kind.PASS_END, Kind.RESUMED)

MANY_NODES = 64  # nodes that are looked at
HOLDERS = ("source", "root", "sources", "source_nodes", "_it", "loader")  # what a node holds further nodes in


def install(module: ModuleType, guard: Guard) -> Undo:
    if module.__name__.endswith("_apply_udf"):
        # Under its own name everywhere: a worker that is spawned finds it by that.
        return replace_everywhere(
            module, "_apply_udf", lambda original: around(original, guard, _worker_begins, end=_worker_ends)
        )
    iterator = module.LoaderIterator
    iterator._unstuck = None  # what every iterator has until it is met, as those of a DataLoader
    iterator._num_workers, iterator._workers = 0, ()
    return together(
        replace(module.Loader, "__init__", lambda original: after(original, guard, _made)),
        replace(module.Loader, "__iter__", lambda original: iterate(original, guard, _begin, _begun)),
        replace(module.Loader, "load_state_dict", lambda original: after(original, guard, _resumed)),
        replace(iterator, "next", lambda original: _next(original, guard)),
    )


def _made(_frame: FrameType, args: Any, _kwargs: Any, _result: Any) -> None:
    entry_of(args[0], _describe)


def _resumed(_frame: FrameType, args: Any, _kwargs: Any, _result: Any) -> None:
    entry_of(args[0], _describe)
    note_resumed(args[0])


def _begin(loader: Any) -> None:
    entry_of(loader, _describe)  # one that was made before recording began is met here
    begin_pass(loader)


def _begun(loader: Any, iterator: Any) -> None:
    making.entry = None
    entry = entry_of(loader)
    if entry is None:
        return
    iterator._workers = _processes_of(loader)
    try:
        entry.pass_begun(iterator)
    finally:
        del iterator._workers  # a process that is over is not to be kept for our sake


def _next(original: Any, guard: Guard) -> Any:
    """As for a DataLoader. While a pass is being made, the library looks ahead by itself: that is nobody's wait."""

    def next_item(self: Any) -> Any:
        cursor = self._unstuck
        if cursor is None or cursor.recorder is not process.recorder or making.entry is cursor.entry:
            try:
                return original(self)
            except Exception as error:
                clean(error)
                raise
        start = clock()
        cursor.words[cursor.phase] = start << 2  # LOADER_WAITS
        try:
            data = original(self)
        except StopIteration as end:
            guard.quietly(cursor.ends, start)
            clean(end)
            raise
        except Exception as error:
            guard.quietly(cursor.fails, error)
            clean(error)
            raise
        try:
            if cursor.recorder is process.recorder:
                cursor.arrives(start)
                if cursor.batch <= FIRST and cursor.number == 1:
                    cursor.early(start, data)
        except Exception as error:
            if guard.theirs(error):
                raise
        return data

    return next_item


def _worker_begins(_frame: FrameType, args: Any, kwargs: Any) -> int | None:
    """A worker of a mapper: a process tells who it is; a thread is part of a process that has told."""
    if threading.current_thread() is not threading.main_thread():
        return None
    recorder = process.recording(f.ROLE_WORKER)
    if recorder is None:
        return None
    number: int = args[0] if args else kwargs["worker_id"]
    recorder.words[f.H_ROLE] = f.ROLE_WORKER
    recorder.words[f.H_WORKER] = number + 1
    return number


def _worker_ends(_: int) -> None:
    process.ended(f.ENDED_LOOP)


def _describe(loader: Any) -> dict[str, Any]:
    """As `describe.describe_loader` does of a DataLoader."""
    found = list(_nodes(loader))
    own = {type(one).__name__: attributes_of(one) for one in found}
    mappers = [attributes_of(one) for one in found if type(one).__name__ == "ParallelMapper"]
    mapper = max(mappers, key=lambda one: one.get("num_workers") or 0, default={})
    prefetcher = own.get("Prefetcher", {})
    data = _dataset_of(found)
    return {
        "type": type_name(loader),
        "batch_size": own.get("Batcher", {}).get("batch_size"),
        "drop_last": own.get("Batcher", {}).get("drop_last"),
        "num_workers": mapper.get("num_workers") or 0,
        "in_order": mapper.get("in_order", True),
        "prefetch_factor": prefetcher.get("prefetch_factor"),
        "context": mapper.get("method"),
        "created": user_line(sys._getframe(1)),
        "dataset": type_name(data),
        "dataset_inner": type_name(data),
        "iterable": True,
        "reads_at": _made_at(data) or _made_at(mapper.get("map_fn")),
        "attributes": {"nodes": " < ".join(type(one).__name__ for one in found[:8])},
    }


def _nodes(loader: Any) -> Iterator[Any]:
    """From the root on, each once."""
    waiting, met = [loader], set()
    for _ in range(MANY_NODES):
        if not waiting:
            return
        one = waiting.pop(0)
        if id(one) in met:
            continue
        met.add(id(one))
        if one is not loader and type(one).__module__ != "torchdata.nodes.loader":
            yield one
        for name, value in attributes_of(one).items():
            if name in HOLDERS and value is not None:
                waiting += _several(value)


def _processes_of(loader: Any) -> tuple[Any, ...]:
    """Worker processes of its mappers, now. Threads have no pid."""
    found = [each for one in _nodes(loader) for each in attributes_of(one).get("_workers") or ()]
    return tuple(each for each in found if getattr(each, "pid", None) is not None)


def _several(value: Any) -> list[Any]:
    if type(value) in (list, tuple):
        return list(value[:MANY_NODES])
    if type(value) is dict:
        return list(value.values())[:MANY_NODES]
    return [value] if hasattr(value, "__dict__") else []


def _dataset_of(found: list[Any]) -> Any:
    """What the samples come from: the object whose method maps indices to them, or the iterable at the beginning."""
    for one in found:
        own = attributes_of(one)
        owner = getattr(own.get("map_fn"), "__self__", None)
        if owner is not None:
            return owner
        if "iterable" in own:
            return own["iterable"]
    return None


def _made_at(of: Any) -> dict[str, Any] | None:
    """Where samples are made."""
    made = getattr(type(of), "__getitem__", None) or getattr(type(of), "__iter__", None)
    code = getattr(of, "__code__", None) or getattr(made, "__code__", None)
    if code is None:
        return None
    return {"file": code.co_filename, "line": code.co_firstlineno, "function": code.co_name}
