"""`torch.utils.data.DataLoader`: creation, iterators, and every wait for a batch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, after, clean, replace, together
from ..core.process import process
from ..core.recorder import clock
from ..format import Kind
from ..loading.iterators import FIRST, Cursor, shutdown_begins, shutdown_ends
from ..loading.loaders import (
    begin_pass,
    entry_of,
    making,
    note_length,
    note_told_length,
    pass_begun,
    pass_failed,
    renew,
)
from ..loading.sampling import told_lengths

MODULES = ("torch.utils.data.dataloader",)
OWES = (
    Kind.LOADER, Kind.ITERATOR, Kind.WORKER, Kind.WAIT, Kind.FIRST_WAIT, Kind.BODY, Kind.PASS_END, Kind.SHUTDOWN,
    Kind.EARLY, Kind.DRAWING,
)  # fmt: skip


def install(module: ModuleType, guard: Guard) -> Undo:
    loader, iterator = module.DataLoader, module._BaseDataLoaderIter
    iterator._unstuck = None  # what every iterator has until it is met; it stays, should a wrapper outlive its undo
    return together(
        replace(loader, "__init__", lambda original: after(original, guard, _made)),
        replace(loader, "__len__", lambda original: after(original, guard, _asked)),
        replace(loader, "__iter__", lambda original: iterate(original, guard)),
        replace(iterator, "__next__", lambda original: _next(original, guard)),
        replace(iterator, "_next_index", lambda original: _next_index(original, guard)),
        replace(module._MultiProcessingDataLoaderIter, "_shutdown_workers", lambda original: shutdown(original, guard)),
    )


def _made(_frame: FrameType, args: Any, _kwargs: Any, _result: Any) -> None:
    entry_of(args[0])


def _asked(_frame: FrameType, args: Any, _kwargs: Any, length: int) -> None:
    note_length(args[0], length)


def iterate(
    original: Any, guard: Guard, begins: Callable[..., None] = begin_pass, begun: Callable[..., None] = pass_begun
) -> Any:
    """For `__iter__` of every class of loaders that has its own."""

    def __iter__(self: Any) -> Any:
        guard.quietly(begins, self)
        try:
            iterator = original(self)
        except Exception as error:
            guard.quietly(pass_failed, self, error)
            clean(error)
            raise
        guard.quietly(begun, self, iterator)
        return iterator

    return __iter__


def _next(original: Any, guard: Guard) -> Any:
    def __next__(self: Any) -> Any:
        cursor: Cursor | None = self._unstuck
        if cursor is None or cursor.recorder is not process.recorder:
            cursor = guard.result(renew, self)
        if cursor is None:
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
            if cursor.recorder is not process.recorder:  # the dataset has forked, and this is the child
                cursor = renew(self)
            if cursor is not None:
                cursor.arrives(start)
                if cursor.batch <= FIRST and cursor.number == 1:
                    cursor.early(start, data)
        except Exception as error:
            if guard.theirs(error):
                raise
        return data

    return __next__


def _next_index(original: Any, guard: Guard) -> Any:
    """The time in the sampler, in as few words as will do: it runs for every batch there is."""

    def _next_index(self: Any) -> Any:
        start = clock()
        try:
            index = original(self)
        except Exception as error:
            if told_lengths.fresh:  # an empty dataset has a length, too
                guard.quietly(note_told_length, self)
            clean(error)
            raise
        try:
            cursor = self._unstuck
            entry = making.entry if cursor is None else cursor.entry
            if entry is not None:
                entry.drawn.append(clock() - start)
            if told_lengths.fresh:
                note_told_length(self)
        except Exception as error:
            if guard.theirs(error):
                raise
        return index

    return _next_index


def shutdown(original: Any, guard: Guard) -> Any:
    """For `_shutdown_workers` of every iterator class that has its own.

    It runs in `__del__` too, to the very end, when names of modules may be gone: then nothing of ours is touched.
    """
    finalizing = sys.is_finalizing

    def _shutdown_workers(self: Any) -> None:
        if finalizing() or getattr(self, "_shutdown", True):
            original(self)
            return
        going_on = None
        try:
            try:
                going_on = guard.result(shutdown_begins, self)
            finally:  # whatever a signal handler raises meanwhile, the workers are ended
                original(self)
        except Exception as error:
            clean(error)
            raise
        if going_on is not None:
            guard.quietly(shutdown_ends, going_on)

    return _shutdown_workers
