"""torch's fetchers, in workers and with num_workers=0: the time of every batch and sample, and what raised."""

from __future__ import annotations

from time import thread_time_ns
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace, together
from ..core.process import process
from ..format import Kind
from ..loading.fetches import NOT_TAKEN, UNKNOWN, Indices, Stream, meet

MODULES = ("torch.utils.data._utils.fetch",)
OWES = (Kind.FETCH, Kind.SAMPLE, Kind.COLLATE, Kind.HANDED, Kind.STATE, Kind.DIGESTS, Kind.DROPPED)


def install(module: ModuleType, guard: Guard) -> Undo:
    # The classes, never an instance: a patched instance is a reference cycle that keeps the dataset alive.
    kinds = (module._MapDatasetFetcher, module._IterableDatasetFetcher)
    for kind in kinds:
        kind._unstuck = UNKNOWN  # what every fetcher has until it is met; it stays, should a wrapper outlive its undo
    return together(*(replace(kind, "fetch", lambda original: _fetch(original, guard)) for kind in kinds))


def _fetch(original: Any, guard: Guard) -> Any:
    """All in one place, because this runs for every batch there is, often with nothing of it in a cache."""

    def fetch(self: Any, possibly_batched_index: Any) -> Any:  # noqa: PLR0912  (a call more costs half a sample)
        stream: Stream | None
        stream, through = self._unstuck
        if stream is None:
            stream, through = guard.result(meet, self, guard) or UNKNOWN
            if stream is None:
                return original(self, possibly_batched_index)
        index = possibly_batched_index
        try:
            if not stream.batches & stream.seldom:
                stream.cpu_began = thread_time_ns()
            if through and type(index) is list:
                index = Indices(possibly_batched_index)
                index.given, index.stream, index.marks = possibly_batched_index, stream, NOT_TAKEN
            else:
                stream.begins()
        except Exception as error:
            if stream.theirs(error):
                raise
        try:
            data = original(self, index)
        except Exception as error:
            guard.quietly(stream.fails, error, index, self)
            clean(error)
            raise
        try:
            if stream.recorder is not process.recorder:  # the dataset has forked, and this is the child
                self._unstuck = UNKNOWN
            elif index is not possibly_batched_index:
                stream.ends(index)
            else:
                stream.ends_whole(index)
            if stream.batches == stream.look_at:
                stream.looks(self, data)
        except Exception as error:
            if guard.theirs(error):
                raise
        return data

    return fetch
