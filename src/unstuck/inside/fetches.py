"""Times what a fetcher does with one batch, sample by sample, without standing between it and the dataset."""

from __future__ import annotations

from collections.abc import Iterator
from time import thread_time_ns
from types import TracebackType
from typing import Any

from . import exceptions
from . import format as f
from .format import Kind
from .guard import Guard
from .process import process
from .recorder import Recorder, clock, pack_board

NO_INDEX = -1
CPU_EVERY = 8  # batches: asking for a thread's processor time is a system call
SHOWN = 64  # indices of a failing batch that are written down
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # an index beyond is no number that fits a word


class Stream:
    """What one process has fetched for one loader."""

    def __init__(self, recorder: Recorder, loader: int) -> None:
        self.recorder = recorder
        self.loader = loader
        self.in_worker = loader == 0 and recorder.words[f.H_ROLE] == f.ROLE_WORKER
        self.batches = self.samples = self.ended = 0
        self.slot = recorder.board_slot(Kind.FETCH, loader)
        self.fetches = recorder.total_slot(Kind.FETCH, loader)
        self.sample_times = recorder.total_slot(Kind.SAMPLE, loader)
        self.collates = recorder.total_slot(Kind.COLLATE, loader)
        self.cpu = recorder.total_slot(Kind.FETCH_CPU, loader)
        self.idle = recorder.total_slot(Kind.IDLE, loader)


class Fetch:
    """One batch on its way from index to data."""

    __slots__ = (
        "collating", "cost", "count", "cpu", "fetcher", "first", "guard", "index", "indices", "longest", "mark",
        "started", "stream",
    )  # fmt: skip

    def __init__(self, stream: Stream, fetcher: Any, indices: Any, guard: Guard) -> None:
        self.guard = guard
        self.stream = stream
        self.fetcher = fetcher
        self.indices = indices
        self.count = self.longest = self.mark = self.collating = self.cost = 0
        self.first = NO_INDEX
        self.index: Any = None
        self.started = start = clock()
        self.cpu = 0 if stream.batches % CPU_EVERY else thread_time_ns()
        if stream.ended:
            stream.recorder.total(stream.idle, start - stream.ended)

    def samples(self) -> Iterator[Any]:
        """The batch's indices, one by one: when the fetcher takes the next, the sample before it is done.

        One loop over local names, because this runs for every sample there is. It measures its own cost once a batch.
        """
        stream = self.stream
        recorder, slot, loader, batches = stream.recorder, stream.slot, stream.loader, stream.batches
        at = slot >> 3
        for index in list.__iter__(self.indices):
            try:
                now = clock()
                if self.mark:
                    self._finish_sample(now)
                self.index = index
                self.mark = now
                if type(index) is str:
                    recorder.board_text(slot, Kind.SAMPLE, loader, now, index, batches, stream.samples)
                else:
                    number = index if type(index) is int and LEAST <= index <= MOST else NO_INDEX
                    words = recorder.words
                    version = words[at] + 1
                    copy = slot + 64 + (version & 1) * f.BOARD_COPY
                    pack_board(recorder.bytes, copy, Kind.SAMPLE, loader, now, batches, stream.samples, number, 0, 0)
                    words[at] = version
                if self.count == 1:
                    self.cost = clock() - now
            except Exception as error:
                if self.guard.theirs(error):
                    raise
            yield index
        # No `finally`: where the dataset ends or raises, it would run while this generator is thrown away, and what
        # a signal handler raises there is lost.
        self.guard.quietly(self.collate)

    def _number(self) -> int:
        index = self.index
        return index if type(index) is int and LEAST <= index <= MOST else NO_INDEX

    def _finish_sample(self, now: int) -> None:
        stream = self.stream
        spent = now - self.mark
        index = self._number()
        if not self.count:
            self.first = index
        self.count += 1
        if spent > self.longest:  # noqa: PLR1730  (max() costs a call for every sample there is)
            self.longest = spent
        recorder = stream.recorder
        recorder.words[stream.sample_times + f.T_BUCKETS + spent.bit_length()] += 1
        recorder.event(Kind.SAMPLE, stream.loader, self.mark, spent, index, stream.samples)
        stream.samples += 1

    def collate(self) -> None:
        """The fetcher has taken its last index and got the sample."""
        self.collating = now = clock()
        stream = self.stream
        if self.mark:
            self._finish_sample(now)
        self._sum_up(now)
        stream.recorder.board(
            stream.slot, Kind.COLLATE, stream.loader, now, stream.batches, stream.samples, self._number()
        )

    def _sum_up(self, now: int) -> None:
        stream = self.stream
        words, slot = stream.recorder.words, stream.sample_times
        words[slot + f.T_SUM] += now - self.started
        words[slot + f.T_MAX] = max(words[slot + f.T_MAX], self.longest)

    def done(self) -> None:
        now = clock()
        stream = self.stream
        recorder = stream.recorder
        if type(self.indices) is list:  # the dataset took the whole list, and its samples are only counted
            self.count = len(self.indices)
            stream.samples += self.count
        collate = now - self.collating if self.collating else 0
        if collate:
            recorder.total(stream.collates, collate)
        recorder.total(stream.fetches, now - self.started)
        if self.cpu:
            recorder.total(stream.cpu, thread_time_ns() - self.cpu)
        recorder.event(Kind.FETCH, stream.loader, self.started, now - self.started, self.count, collate, self.first)
        stream.batches += 1
        self.over()
        recorder.cost(clock() - now + self.cost * self.count)

    def over(self) -> None:
        self.indices = self.fetcher = None  # the first refers back to us: without the cycle both go at once
        stream = self.stream
        if self.mark and not self.collating:
            self._sum_up(clock())  # the dataset ended or raised in mid-batch
        now = clock()
        if stream.in_worker:
            stream.ended = now  # elsewhere it waits for no index, but runs the loop's body
        stream.recorder.board(stream.slot, Kind.IDLE, stream.loader, now, stream.batches, stream.samples, NO_INDEX)

    def failed(self, error: Exception) -> None:
        """Keep what the fetcher was about: in a worker at once, in the main process only if it ends the program."""
        index = self.index if self.index is not None else _first_index(error.__traceback__)
        facts: dict[str, Any] = {
            "batch": self.stream.batches,
            "position": self.stream.samples,
            "index": index if type(index) in (int, str) else None,
            "collating": bool(self.collating or getattr(self.fetcher, "ended", False)),
        }
        if isinstance(self.indices, list):
            facts["indices"] = [one for one in list.__iter__(self.indices) if type(one) in (int, str)][:SHOWN]
        if self.stream.in_worker:
            exceptions.keep(error, "fetch", **facts)
        else:
            exceptions.remember(error, facts)
        self.over()


class Indices(list):  # type: ignore[type-arg]
    """A batch's list of indices that tells its fetch when each is taken."""

    __slots__ = ("fetch",)
    fetch: Fetch

    def __iter__(self) -> Iterator[Any]:
        return self.fetch.samples()


def begin(fetcher: Any, index: Any, guard: Guard) -> Fetch | None:
    """Start the clock on a fetch. None when nothing records."""
    recorder = process.recorder or process.recording()
    if recorder is None:
        return None
    loader = process.loader
    stream = _streams.get(loader)
    if stream is None or stream.recorder is not recorder:
        stream = _streams[loader] = Stream(recorder, loader)
    fetch = Fetch(stream, fetcher, index, guard)
    if type(index) is list and fetcher.auto_collation and not _fetches_batches(fetcher):
        fetch.indices = watched = Indices(index)
        watched.fetch = fetch
    else:
        recorder.board(stream.slot, Kind.FETCH, loader, fetch.started, stream.batches, stream.samples, NO_INDEX)
    return fetch


def _fetches_batches(fetcher: Any) -> bool:
    """Whether the dataset is handed the whole list, as a type it may look at; asked once, the way torch asks."""
    known = getattr(fetcher, "_unstuck_batches", None)
    if known is None:
        known = type(fetcher).__name__ == "_MapDatasetFetcher" and bool(getattr(fetcher.dataset, "__getitems__", None))
        fetcher._unstuck_batches = known
    return bool(known)


def _first_index(trace: TracebackType | None) -> Any:
    """The index that the first `__getitem__` method on the way was called with."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "__getitem__" and code.co_argcount == 2:
            return trace.tb_frame.f_locals.get(code.co_varnames[1])
        trace = trace.tb_next
    return None


_streams: dict[int, Stream] = {}
