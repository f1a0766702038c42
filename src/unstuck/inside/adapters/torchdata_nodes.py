"""torchdata's nodes: `Loader` is a loader without a DataLoader, and mappers have workers of their own."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

from .. import format as f
from ..cursors import FIRST
from ..format import Kind
from ..guard import Guard, clean
from ..loaders import begin_pass, entry_of, making, note_resumed, pass_failed
from ..node_graphs import describe_nodes, processes_of
from ..patching import Undo, replace, replace_everywhere, together
from ..process import process
from ..recorder import clock

MODULES = ("torchdata.nodes.loader", "torchdata.nodes._apply_udf")
OWES = (Kind.LOADER, Kind.ITERATOR, Kind.WORKER, Kind.WAIT, Kind.FIRST_WAIT, Kind.BODY, Kind.PASS_END, Kind.RESUMED)


def install(module: ModuleType, guard: Guard) -> Undo:
    if module.__name__.endswith("_apply_udf"):
        # Under its own name everywhere: a worker that is spawned finds it by that.
        return replace_everywhere(module, "_apply_udf", lambda original: _worker(original, guard))
    iterator = module.LoaderIterator
    iterator._unstuck = None  # what every iterator has until it is met, as those of a DataLoader
    iterator._num_workers, iterator._workers = 0, ()
    return together(
        replace(module.Loader, "__init__", lambda original: _init(original, guard)),
        replace(module.Loader, "__iter__", lambda original: _iterate(original, guard)),
        replace(module.Loader, "load_state_dict", lambda original: _load(original, guard)),
        replace(iterator, "next", lambda original: _next(original, guard)),
    )


def _init(original: Any, guard: Guard) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        guard.quietly(entry_of, self, describe_nodes)

    return __init__


def _load(original: Any, guard: Guard) -> Any:
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        guard.quietly(_resumed, self)
        return result

    return load_state_dict


def _resumed(loader: Any) -> None:
    entry_of(loader, describe_nodes)
    note_resumed(loader)


def _iterate(original: Any, guard: Guard) -> Any:
    def __iter__(self: Any) -> Any:
        guard.quietly(_begin, self)
        try:
            iterator = original(self)
        except Exception as error:
            guard.quietly(pass_failed, self, error)
            clean(error)
            raise
        guard.quietly(_begun, self, iterator)
        return iterator

    return __iter__


def _begin(loader: Any) -> None:
    entry_of(loader, describe_nodes)  # one that was made before recording began is met here
    begin_pass(loader)


def _begun(loader: Any, iterator: Any) -> None:
    making.entry = None
    entry = entry_of(loader)
    if entry is None:
        return
    iterator._workers = processes_of(loader)
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


def _worker(original: Any, guard: Guard) -> Any:
    """A worker of a mapper: a process tells who it is; a thread is part of a process that has told."""

    def _apply_udf(worker_id: int, *args: Any, **kwargs: Any) -> None:
        is_process = guard.result(_is_process, worker_id)
        try:
            original(worker_id, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        if is_process:
            guard.quietly(process.ended, f.ENDED_LOOP)

    return _apply_udf


def _is_process(worker_id: int) -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    recorder = process.recording(f.ROLE_WORKER)
    if recorder is None:
        return False
    recorder.words[f.H_ROLE] = f.ROLE_WORKER
    recorder.words[f.H_WORKER] = worker_id + 1
    return True
