"""Times what a fetcher does with one batch, sample by sample, without standing between it and the dataset."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from time import thread_time_ns
from types import TracebackType
from typing import Any

from . import exceptions
from . import format as f
from .format import MASK, Kind
from .guard import Guard
from .process import process
from .recorder import Recorder, clock

NO_INDEX = -1
CPU_EVERY = 8  # batches: asking for a thread's processor time is a system call
SOON, MANY = 100_000_000, 256  # nanoseconds, batches or samples: what is remembered is written down
SHOWN = 64  # indices of a failing batch that are written down
END = object()
LAST = (END,)
SAMPLE = Kind.SAMPLE
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # an index beyond is no number that fits a word


class Stream:
    """What one process fetches for one loader: all of it so far, and the batch at hand."""

    __slots__ = (
        "batches", "collates", "collating", "cpu", "cpu_began", "ended", "fetches", "guard", "idle", "in_worker",
        "index", "loader", "marks", "numbers", "pending", "phase", "recorder", "remembered", "sample_times", "samples",
        "settled", "slot", "spent", "started", "unit", "waiting", "words",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, loader: int, guard: Guard) -> None:
        self.guard = guard
        self.recorder = recorder
        self.words = recorder.words
        self.loader = loader
        self.in_worker = loader == 0 and recorder.words[f.H_ROLE] == f.ROLE_WORKER
        self.batches = self.samples = self.ended = self.spent = self.unit = self.settled = self.remembered = 0
        self.collating = self.started = self.cpu_began = 0
        self.index: Any = None
        self.marks: list[int] = []  # when each sample of the batch at hand was begun
        self.numbers: list[int] = []  # and its index
        self.pending: list[tuple[int, ...]] = []  # batches that are not written down yet
        self.waiting: list[tuple[list[int], list[int], int]] = []  # and samples
        self.slot = recorder.board_slot(Kind.FETCH, loader)
        self.phase = (self.slot >> 3) + f.L_PHASE
        self.fetches = recorder.total_slot(Kind.FETCH, loader)
        self.sample_times = recorder.total_slot(Kind.SAMPLE, loader)
        self.collates = recorder.total_slot(Kind.COLLATE, loader)
        self.cpu = recorder.total_slot(Kind.FETCH_CPU, loader)
        self.idle = recorder.total_slot(Kind.IDLE, loader)
        recorder.board(self.slot, Kind.FETCH, loader, clock())
        process.remembered.append(self.settle)

    def begins(self) -> None:
        self.marks, self.numbers = [], []
        self.collating = 0
        self.index = None
        self.cpu_began = 0 if self.batches % CPU_EVERY else thread_time_ns()
        self.started = start = clock()
        self.words[self.phase] = start << 2  # FETCH_BEGINS

    def taken(self, indices: list[Any]) -> Iterator[Any]:
        """The batch's indices, one by one: when the fetcher takes the next, the sample before it is done.

        Little more than the time is noted here, because this runs for every sample there is; what goes on is on the
        board at once.
        """
        recorder, words, phase, marks, numbers = self.recorder, self.words, self.phase, self.marks, self.numbers
        for index in chain(list.__iter__(indices), LAST):
            try:
                if process.recorder is recorder:  # else the sample has forked, and this is the child
                    now = clock()
                    marks.append(now)
                    if index is END:
                        self.collating = now
                        words[phase] = now << 2 | 2  # FETCH_COLLATE
                        return
                    number = index if type(index) is int and LEAST <= index <= MOST else NO_INDEX
                    numbers.append(number)
                    self.index = index
                    if type(index) is str:
                        recorder.board_text(self.slot, SAMPLE, self.loader, now, index, self.batches, self.samples)
                    else:
                        words[phase + 1] = number & MASK
                        words[phase] = now << 2 | 1  # FETCH_SAMPLE
                    if len(numbers) == 2:
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
        start, collating, marks = self.started, self.collating, self.marks  # before the clock: threads share a loader
        now = clock()
        words, phase = self.words, self.phase
        count = whole or max(len(marks) - 1, 0)
        cpu = thread_time_ns() - self.cpu_began if self.cpu_began else 0
        idle = start - self.ended if self.ended else 0
        collate = now - collating if collating else 0
        numbers = self.numbers
        self.pending.append((start, now - start, collate, idle, cpu, count, numbers[0] if numbers else NO_INDEX))
        self.waiting.append((marks, numbers, self.samples))
        self.samples = samples = self.samples + count
        self.batches = batches = self.batches + 1
        words[phase + 2] = batches
        words[phase + 3] = samples
        if self.in_worker:
            self.ended = now  # elsewhere it waits for no index, but runs the loop's body
        words[phase] = now << 2 | 3  # FETCH_IDLE
        self.remembered += count
        self.spent += clock() - now + self.unit * count
        if now - self.settled > SOON or self.remembered >= MANY or len(self.pending) >= MANY:
            self.settle()

    def rests(self) -> None:
        """The dataset has ended, or raised: there is no batch, but there may have been samples."""
        now = clock()
        if self.marks:
            self.waiting.append((self.marks, self.numbers, self.samples))
            self.samples += len(self.marks) - 1
            self.marks = []
        if self.in_worker:
            self.ended = now
        self.words[self.phase + 3] = self.samples
        self.words[self.phase] = now << 2 | f.FETCH_IDLE

    def settle(self) -> None:
        """Write down the batches and samples that are only remembered so far."""
        if not self.pending and not self.waiting:
            return
        self.settled = begun = clock()
        pending, self.pending = self.pending, []
        waiting, self.waiting, self.remembered = self.waiting, [], 0
        recorder = self.recorder
        for marks, numbers, position in waiting:
            spent = [after - before for before, after in pairwise(marks)]
            ended = zip(marks, spent, numbers, strict=False)  # the last may have no end
            for at, (mark, took, number) in enumerate(ended, position):
                recorder.event(SAMPLE, self.loader, mark, took, number, at)
            recorder.totals(self.sample_times, spent)
        for start, fetch, collate, _, _, count, first in pending:
            recorder.event(Kind.FETCH, self.loader, start, fetch, count, collate, first)
        recorder.totals(self.fetches, [one[1] for one in pending])
        recorder.totals(self.collates, [one[2] for one in pending if one[2]])
        recorder.totals(self.idle, [one[3] for one in pending if one[3]])
        recorder.totals(self.cpu, [one[4] for one in pending if one[4]])
        recorder.cost(self.spent + clock() - begun, len(pending))
        self.spent = 0

    def failed(self, error: Exception, indices: Any, fetcher: Any) -> None:
        """Keep what the fetcher was about: in a worker at once, in the main process only if it ends the program."""
        index = self.index if self.index is not None else _first_index(error.__traceback__)
        facts: dict[str, Any] = {
            "batch": self.batches,
            "position": self.samples + max(len(self.marks) - 1, 0),
            "index": index if type(index) in (int, str) else None,
            "collating": bool(self.collating or getattr(fetcher, "ended", False)),
        }
        if isinstance(indices, list):
            facts["indices"] = [one for one in list.__iter__(indices) if type(one) in (int, str)][:SHOWN]
        if self.in_worker:
            exceptions.keep(error, "fetch", **facts)
        else:
            exceptions.remember(error, facts)
        self.rests()
        self.settle()


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
