"""torch's fetchers, in workers and with num_workers=0: the time of every batch and sample, and what raised."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..fetches import begin
from ..format import Kind
from ..guard import Guard, clean
from ..patching import Undo, replace, together

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
        watched = None
        try:
            watched = begin(self, possibly_batched_index, guard)
        except Exception as error:
            if guard.theirs(error):
                raise
        if watched is None:
            return original(self, possibly_batched_index)
        try:
            data = original(self, watched.indices)
        except StopIteration as end:
            guard.quietly(watched.over)
            clean(end)
            raise
        except Exception as error:
            guard.quietly(watched.failed, error)
            clean(error)
            raise
        try:
            watched.done()
        except Exception as error:
            if guard.theirs(error):
                raise
        return data

    return fetch
