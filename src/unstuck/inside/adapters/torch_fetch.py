"""torch's fetchers, in workers and with num_workers=0: the time of every batch and sample, and what raised."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..fetches import stream_of, watched
from ..format import Kind
from ..guard import Guard, clean
from ..patching import Undo, replace, together
from ..process import process

MODULES = ("torch.utils.data._utils.fetch",)
OWES = (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE)


def install(module: ModuleType, guard: Guard) -> Undo:
    # The classes, never an instance: a patched instance is a reference cycle that keeps the dataset alive.
    return together(
        replace(module._MapDatasetFetcher, "fetch", lambda original: _fetch(original, guard)),
        replace(module._IterableDatasetFetcher, "fetch", lambda original: _fetch(original, guard)),
    )


def _fetch(original: Any, guard: Guard) -> Any:
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        stream, index = None, possibly_batched_index
        try:
            stream = stream_of(guard)
            if stream is not None:
                index = watched(stream, self, possibly_batched_index)
                stream.begins()
        except Exception as error:
            if guard.theirs(error):
                raise
        if stream is None:
            return original(self, possibly_batched_index)
        try:
            data = original(self, index)
        except StopIteration as end:
            guard.quietly(stream.rests)
            clean(end)
            raise
        except Exception as error:
            guard.quietly(stream.failed, error, index, self)
            clean(error)
            raise
        try:
            if stream.recorder is process.recorder:  # else the dataset has forked, and this is the child
                stream.ends(len(index) if type(index) is list else 0)
        except Exception as error:
            if guard.theirs(error):
                raise
        return data

    return fetch
