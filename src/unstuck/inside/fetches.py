"""Times what a fetcher does with one batch, sample by sample, without standing between it and the dataset."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from time import thread_time_ns
from types import TracebackType
from typing import Any

from . import exceptions
from . import format as f
from .format import MASK, RING_WORDS, Kind
from .guard import Guard
from .process import process
from .recorder import Recorder, clock, pack_event

NO_INDEX = -1
CPU_EVERY = 8  # batches: asking for a thread's processor time is a system call
SOON, MANY = 100_000_000, 64  # nanoseconds, batches: what is remembered is written down
SHOWN = 64  # indices of a failing batch that are written down
END = object()
LAST = (END,)
SAMPLE = Kind.SAMPLE
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # an index beyond is no number that fits a word


class Stream:
    """What one process fetches for one loader: all of it so far, and the batch at hand."""

    __slots__ = (
        "batches", "collates", "collating", "count", "cpu", "cpu_began", "ended", "fetches", "first", "guard", "hot",
        "idle", "in_worker", "index", "loader", "longest", "pending", "phase", "recorder", "sample_times", "samples",
        "settled", "slot", "spent", "started", "unit", "words",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, loader: int, guard: Guard) -> None:
        self.guard = guard
        self.recorder = recorder
        self.words = recorder.words
        self.loader = loader
        self.in_worker = loader == 0 and recorder.words[f.H_ROLE] == f.ROLE_WORKER
        self.batches = self.samples = self.ended = self.spent = self.unit = self.longest = 0
        self.count = self.collating = self.started = self.cpu_began = 0
        self.first = NO_INDEX
        self.index: Any = None
        self.pending: list[tuple[int, ...]] = []
        self.settled = 0
        self.slot = recorder.board_slot(Kind.FETCH, loader)
        self.phase = (self.slot >> 3) + f.L_PHASE
        self.fetches = recorder.total_slot(Kind.FETCH, loader)
        self.sample_times = recorder.total_slot(Kind.SAMPLE, loader)
        self.collates = recorder.total_slot(Kind.COLLATE, loader)
        self.cpu = recorder.total_slot(Kind.FETCH_CPU, loader)
        self.idle = recorder.total_slot(Kind.IDLE, loader)
        buckets = self.sample_times + f.T_BUCKETS
        self.hot = (
            recorder.words, recorder.bytes, self.phase, buckets, recorder.ring, recorder.ring_count,
            recorder.next_sequence, loader,
        )  # fmt: skip
        recorder.board(self.slot, Kind.FETCH, loader, clock())
        process.remembered.append(self.settle)

    def begins(self) -> None:
        self.count = self.longest = self.collating = 0
        self.first = NO_INDEX
        self.index = None
        self.cpu_began = 0 if self.batches % CPU_EVERY else thread_time_ns()
        self.started = start = clock()
        self.words[self.phase] = start << 2  # FETCH_BEGINS

    def taken(self, indices: list[Any]) -> Iterator[Any]:
        """The batch's indices, one by one: when the fetcher takes the next, the sample before it is done.

        All in one loop over local names, because this runs for every sample there is.
        """
        words, data, phase, buckets, ring, ring_count, next_sequence, loader = self.hot
        mark = 0
        number = NO_INDEX
        recorder = self.recorder
        for index in chain(list.__iter__(indices), LAST):
            try:
                if process.recorder is recorder:  # else the sample has forked, and this is the child
                    now = clock()
                    if mark:
                        spent = now - mark
                        words[buckets + spent.bit_length()] += 1
                        sequence = next_sequence()
                        at = ring + sequence % ring_count * RING_WORDS
                        words[at] = 0
                        pack_event(data, (at + 1) << 3, SAMPLE, loader, mark, spent, number, self.samples, 0)
                        words[at] = sequence
                        self.count += 1
                        self.samples += 1
                        self.longest = max(self.longest, spent)
                    if index is END:
                        self.collating = now
                        words[phase] = now << 2 | 2  # FETCH_COLLATE
                        return
                    number = index if type(index) is int and LEAST <= index <= MOST else NO_INDEX
                    if not mark:
                        self.first = number
                    self.index = index
                    mark = now
                    if type(index) is str:
                        recorder.board_text(self.slot, SAMPLE, loader, now, index, self.batches, self.samples)
                    else:
                        words[phase + 1] = number & MASK
                        words[phase] = now << 2 | 1  # FETCH_SAMPLE
                    if self.count == 1:
                        self.unit = clock() - now  # what one sample costs; it stands for all of the batch
            except Exception as error:
                if self.guard.theirs(error):
                    raise
            if index is END:
                return
            # No `finally`: where the dataset ends or raises, it would run while this generator is thrown away, and
            # what a signal handler raises there is lost.
            yield index

    def ends(self, whole: int) -> None:
        """The batch is done. `whole`: that many samples were taken as one list, and are only counted."""
        start, collating = self.started, self.collating  # read before the clock: threads may share a loader
        now = clock()
        words, phase = self.words, self.phase
        if whole:
            self.count = whole
            self.samples += whole
        collate = now - collating if collating else 0
        cpu = thread_time_ns() - self.cpu_began if self.cpu_began else 0
        idle = start - self.ended if self.ended else 0
        self.pending.append((start, now - start, collate, idle, cpu, self.longest, self.count, self.first))
        self.batches = batches = self.batches + 1
        words[phase + 2] = batches
        words[phase + 3] = self.samples
        if self.in_worker:
            self.ended = now  # elsewhere it waits for no index, but runs the loop's body
        words[phase] = now << 2 | 3  # FETCH_IDLE
        self.spent += clock() - now + self.unit * self.count
        if now - self.settled > SOON or len(self.pending) >= MANY:
            self.settle()

    def rests(self) -> None:
        """The dataset has ended, or raised: there is no batch."""
        now = clock()
        if self.in_worker:
            self.ended = now
        self.words[self.phase + 3] = self.samples
        self.words[self.phase] = now << 2 | f.FETCH_IDLE

    def settle(self) -> None:
        """Write down the batches that are only remembered so far."""
        if not self.pending:
            return
        self.settled = begun = clock()
        pending, self.pending = self.pending, []
        recorder, words, samples = self.recorder, self.words, self.sample_times
        for start, fetch, collate, _, _, _, count, first in pending:
            recorder.event(Kind.FETCH, self.loader, start, fetch, count, collate, first)
        recorder.totals(self.fetches, [one[1] for one in pending])
        recorder.totals(self.collates, [one[2] for one in pending if one[2]])
        recorder.totals(self.idle, [one[3] for one in pending if one[3]])
        recorder.totals(self.cpu, [one[4] for one in pending if one[4]])
        # How often a sample took how long is counted at once; how long they took in all, here.
        words[samples + f.T_SUM] += sum(one[1] - one[2] for one in pending if one[2])
        words[samples + f.T_MAX] = max(words[samples + f.T_MAX], *(one[5] for one in pending))
        recorder.cost(self.spent + clock() - begun, len(pending))
        self.spent = 0

    def failed(self, error: Exception, indices: Any, fetcher: Any) -> None:
        """Keep what the fetcher was about: in a worker at once, in the main process only if it ends the program."""
        index = self.index if self.index is not None else _first_index(error.__traceback__)
        facts: dict[str, Any] = {
            "batch": self.batches,
            "position": self.samples,
            "index": index if type(index) in (int, str) else None,
            "collating": bool(self.collating or getattr(fetcher, "ended", False)),
        }
        if isinstance(indices, list):
            facts["indices"] = [one for one in list.__iter__(indices) if type(one) in (int, str)][:SHOWN]
        if self.in_worker:
            exceptions.keep(error, "fetch", **facts)
        else:
            exceptions.remember(error, facts)
        self.settle()
        self.rests()


class Indices(list):  # type: ignore[type-arg]
    """A batch's list of indices that tells the stream when each is taken."""

    __slots__ = ("stream",)
    stream: Stream

    def __iter__(self) -> Iterator[Any]:
        return self.stream.taken(self)


def stream_of(guard: Guard) -> Stream | None:
    """The stream of the loader that is asked now. None when nothing records."""
    recorder = process.recorder or process.recording()
    if recorder is None:
        return None
    stream = _streams.get(process.loader)
    if stream is None or stream.recorder is not recorder:
        stream = _streams[process.loader] = Stream(recorder, process.loader, guard)
    return stream


def watched(stream: Stream, fetcher: Any, index: Any) -> Any:
    """The index as the fetcher shall have it: a list that it goes through itself, else as it is."""
    if type(index) is not list:
        return index
    goes_through = getattr(fetcher, "_unstuck", None)
    if goes_through is None:
        # The dataset may be handed the whole list, as a type it may look at: asked once, the way torch asks.
        whole = type(fetcher).__name__ == "_MapDatasetFetcher" and bool(getattr(fetcher.dataset, "__getitems__", None))
        goes_through = fetcher._unstuck = fetcher.auto_collation and not whole
    if not goes_through:
        return index
    indices = Indices(index)
    indices.stream = stream
    return indices


def _first_index(trace: TracebackType | None) -> Any:
    """The index that the first `__getitem__` method on the way was called with."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "__getitem__" and code.co_argcount == 2:
            return trace.tb_frame.f_locals.get(code.co_varnames[1])
        trace = trace.tb_next
    return None


_streams: dict[int, Stream] = {}
