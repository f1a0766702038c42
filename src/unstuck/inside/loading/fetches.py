"""Times what a fetcher does with one batch, sample by sample, without standing between it and the dataset.

The fetcher is handed the batch's indices as a list that notes when each is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import sub
from time import thread_time_ns
from types import TracebackType
from typing import Any

from .. import format as f
from ..core.frames import variables
from ..core.guard import Guard, clean, is_ours
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..core.stacks import stacks
from ..failures import exceptions
from ..format import H_FIRST_SAMPLE, MASK, Kind
from . import shuffle_buffers
from .contents import WorkerFacts, shapes_of_batch

SOON, MANY = 100_000_000, 256  # nanoseconds, batches or samples: what is remembered is written down
# One batch in eight, in 64 where they are short: a thread's processor time is a system call, and what we cost repeats.
SELDOM, VERY_SELDOM, SHORT = 7, 63, 32  # batches that are written down at once are short
SHOWN = 64  # indices of a failing batch that are written down
SAMPLE = "sample"  # as a stage: all that is done for it
UNKNOWN: tuple[Stream | None, bool] = (None, False)

NO_INDEX = -1
LEAST, MOST = -(1 << 63), (1 << 63) - 1  # an index beyond is no number that fits a word
PLAIN = (1 << 30) - 1  # an index beyond costs Python more to compare
NOT_TAKEN: list[int] = []

SLOWEST_SOON = 500_000_000  # nanoseconds until the next may be written down; then twice as long each time
SLOWEST_STAGES = 16  # that are kept apart


class Stream:
    """What one process fetches for one loader: all of it so far, and the batch at hand."""

    __slots__ = (
        "batches", "collates", "cpu", "cpu_began", "cpus", "cpus_of", "due", "ended", "facts", "fetches", "full",
        "guard", "idle", "in_worker", "loader", "look_at", "odd", "passes", "pending", "phase", "recorder",
        "sample_times", "samples", "seldom", "slot", "spent", "started", "streams", "unit", "words", "written",
    )  # fmt: skip

    def __init__(self, recorder: Recorder, loader: int, guard: Guard) -> None:
        self.guard = guard
        self.recorder = recorder
        self.words = recorder.words
        self.loader = loader
        self.in_worker = loader == 0 and recorder.words[f.H_ROLE] == f.ROLE_WORKER
        self.batches = self.samples = self.spent = self.unit = self.started = self.cpu_began = self.passes = 0
        self.streams: shuffle_buffers.Lists | None = None  # what its stream holds back is to be looked at, in this pass
        self.seldom = SELDOM
        self.ended = 0  # when the last batch that is written down did, and
        self.written = 0  # how many samples are written down
        self.due, self.full = 0, MANY  # when, and at which sample, what is remembered is written down
        # Batches that are not written down yet; of those that were taken as one: begin, end, samples.
        self.pending: list[Indices | tuple[int, int, int]] = []
        self.cpus: list[tuple[int, int]] = []  # processor time of some batches, and how long each took
        self.facts = WorkerFacts(recorder) if self.in_worker else None
        self.look_at = 0  # number of batches after which one is looked at; 0: none is
        self.odd: Indices | None = None  # the batch at hand, if one of its indices is no plain number
        self.slot = recorder.board_slot(Kind.FETCH, loader)
        self.phase = (self.slot >> 3) + f.L_PHASE
        self.fetches = recorder.total_slot(Kind.FETCH, loader)
        self.sample_times = recorder.total_slot(Kind.SAMPLE, loader)
        self.collates = recorder.total_slot(Kind.COLLATE, loader)
        self.cpu = recorder.total_slot(Kind.FETCH_CPU, loader)
        self.cpus_of = recorder.total_slot(Kind.FETCH_TIMED, loader)
        self.idle = recorder.total_slot(Kind.IDLE, loader)
        recorder.board(self.slot, Kind.FETCH, loader, clock())
        process.remembered.append(self.settle)
        if self.in_worker:
            stacks.answer(recorder)
            stacks.keep_crashes()

    def begins(self) -> None:
        """A batch that is taken as one. One that is gone through says itself when it begins."""
        self.started = start = clock()
        self.words[self.phase] = start << 2  # FETCH_BEGINS

    def ends(self, indices: Indices) -> None:
        """The batch is done. What can be worked out later is, because this runs for every batch there is."""
        now = clock()
        words, phase, batches, marks = self.words, self.phase, self.batches, indices.marks
        if not marks:
            self.ends_whole(indices)  # it was not gone through after all
            return
        number = len(marks) - 1
        marks.append(now)
        if not batches & self.seldom:
            if self.cpu_began:  # else it was begun before there was a reason to ask
                self.cpus.append((thread_time_ns() - self.cpu_began, now - marks[0]))
                self.cpu_began = 0
            self.spent += (clock() - now) * (self.seldom + 1)  # it stands for all
        self.pending.append(indices if indices is not self.odd else self.in_numbers(indices))
        self.batches = words[phase + 2] = batches + 1
        self.samples = words[phase + 3] = samples = self.samples + number
        words[phase] = now << 2 | 3  # FETCH_IDLE
        if now > self.due or samples >= self.full:
            self.settle()

    def ends_whole(self, index: Any) -> None:
        """The same for one that was taken as one: its samples are only counted."""
        now = clock()
        number = len(index) if type(index) is list else 0
        self.pending.append((self.started or now, now, number))
        self.batches += 1
        self.samples += number
        self.words[self.phase + 2] = self.batches
        self.words[self.phase + 3] = self.samples
        self.words[self.phase] = now << 2 | 3  # FETCH_IDLE
        self.spent += clock() - now
        if now > self.due or len(self.pending) >= MANY:
            self.settle()

    def pass_begins(self, fetcher: Any) -> None:
        """torch makes a fetcher for every pass."""
        iterable = type(fetcher).__name__ == "_IterableDatasetFetcher"
        self.passes += 1
        self.streams = shuffle_buffers.begins(fetcher) if iterable and self.passes <= shuffle_buffers.PASSES else None
        self.look_at = self.batches + 1 if iterable else 0
        if self.facts is not None:
            self.facts.pass_begins(fetcher.dataset, self.batches, iterable=iterable)
            self.look_at = self.facts.due

    def looks(self, fetcher: Any, data: Any) -> None:
        self.look_at = 0
        streams, self.streams = self.streams, None
        if streams is not None:
            shuffle_buffers.note(self.recorder, self.loader, fetcher, self.passes, streams)
        if self.facts is not None:
            self.facts.looks(fetcher.dataset, data, self.batches)
            self.look_at = self.facts.due

    def rests(self, index: Any) -> None:
        """The dataset has ended, or raised: there is no batch, but there may have been samples."""
        self.settle()
        now = clock()
        if type(index) is Indices and index.marks:
            marks, index.marks = index.marks, NOT_TAKEN
            self._write_samples(marks[:-1], list(map(sub, marks[1:], marks)), _numbers_of(index)[: len(marks) - 1])
            self.samples = self.written
        self.ended = now
        self.words[self.phase + 3] = self.samples
        self.words[self.phase] = now << 2 | f.FETCH_IDLE

    def settle(self) -> None:
        """Write down the batches and samples that are only remembered so far."""
        pending, self.pending = self.pending, []
        if not pending:
            return
        begun = clock()
        if not self.words[f.H_FIRST_SAMPLE]:
            self.words[f.H_FIRST_SAMPLE] = _first_done(pending[0])
        self.due, self.full = begun + SOON, self.samples + MANY
        self.seldom = VERY_SELDOM if len(pending) >= SHORT else SELDOM
        through = [one for one in pending if type(one) is Indices]
        same = len({len(one.marks) for one in through}) == len({len(one) for one in through}) == 1
        for run in [through] if same else [[one] for one in through]:
            self._write_run(run)
        wholes = [one for one in pending if type(one) is tuple]
        if wholes:
            starts, ends, numbers = zip(*wholes, strict=True)
            self._write_fetches(starts, ends, numbers, [0] * len(wholes), [NO_INDEX] * len(wholes))
            self.written += sum(numbers)
        cpus, self.cpus = [one for one in self.cpus if one[0] > 0], []  # another thread's is another clock
        self.recorder.totals(self.cpu, [cpu for cpu, _ in cpus])
        self.recorder.totals(self.cpus_of, [lasted for _, lasted in cpus])
        self.recorder.cost(self.spent + clock() - begun, len(pending))
        self.spent = 0

    def _write_run(self, run: list[Indices]) -> None:
        """Batches that are alike, column by column. A sample lasted until the next was begun."""
        marks = list(chain.from_iterable([one.marks for one in run]))
        width = len(run[0].marks)
        samples = width - 2  # and two marks more: when the last was done, when the batch was
        lasted = [*map(sub, marks[1:], marks), 0]
        starts, ends = marks[::width], marks[samples + 1 :: width]
        complete = samples == len(run[0])  # else the dataset has ended in between
        collates = lasted[samples::width] if complete else [0] * len(run)
        for column in (marks, lasted):
            del column[samples + 1 :: width]
            del column[samples :: samples + 1]
        numbers = list(chain.from_iterable([one[:samples] for one in run]))
        self._write_samples(marks, lasted, numbers)
        firsts = numbers[::samples] if samples else [NO_INDEX] * len(run)
        self._write_fetches(starts, ends, [samples] * len(run), collates, firsts)

    def _write_fetches(
        self,
        starts: Sequence[int],
        ends: Sequence[int],
        numbers: Sequence[int],
        collates: Sequence[int],
        firsts: Sequence[int],
    ) -> None:
        recorder, times = self.recorder, list(map(sub, ends, starts))
        recorder.events(Kind.FETCH, self.loader, starts, times, numbers, collates, firsts)
        recorder.totals(self.fetches, times)
        recorder.totals(self.collates, [one for one in collates if one])
        if self.in_worker:  # elsewhere it waits for no index, but runs the loop's body
            before = (self.ended, *ends)
            recorder.totals(self.idle, [one - end for one, end in zip(starts, before, strict=False) if end])
            self.ended = ends[-1]

    def _write_samples(self, starts: list[int], times: list[int], numbers: list[int]) -> None:
        positions = range(self.written, self.written + len(starts))
        self.recorder.events(Kind.SAMPLE, self.loader, starts, times, numbers, positions)
        if times and (longest := max(times)) > self.words[self.sample_times + f.T_MAX]:
            at = times.index(longest)
            note_slowest(self.recorder, SAMPLE, starts[at], longest, index=numbers[at])
        self.recorder.totals(self.sample_times, times)
        self.written += len(starts)
        self.spent += self.unit * len(starts)

    def in_numbers(self, indices: Indices) -> Indices:
        """The same batch without what is the user's: only the numbers are kept."""
        self.odd = None
        kept = Indices(_numbers_of(indices))
        kept.marks = indices.marks
        return kept

    def fails(self, error: Exception, index: Any, fetcher: Any) -> None:
        """There is no batch. An error is kept with what the fetcher was about."""
        if not isinstance(error, StopIteration):
            self.keep(error, index, fetcher)
        if self.recorder is not process.recorder:
            return
        if isinstance(error, StopIteration) and type(index) is Indices and len(index.marks) > 1:
            # There were samples, and no batch of them: it stayed incomplete and was dropped.
            self.recorder.note(Kind.DROPPED, self.loader, clock(), 0, len(index.marks) - 1)
        self.rests(index)

    def keep(self, error: Exception, index: Any, fetcher: Any) -> None:
        """In a worker at once, in the main process only if it ends the program."""
        taken = len(index.marks) if type(index) is Indices else 0
        at = list.__getitem__(index, min(taken, len(index)) - 1) if taken and index else None
        if at is None:
            at = _first_index(error.__traceback__)
        facts: dict[str, Any] = {
            "batch": self.batches,
            "position": self.samples + max(taken - 1, 0),
            "index": at if type(at) in (int, str) else None,
            "collating": bool((taken and taken > len(index)) or getattr(fetcher, "ended", False)),
        }
        if isinstance(index, list):
            facts["indices"] = [one for one in list.__iter__(index) if type(one) in (int, str)][:SHOWN]
        if facts["collating"]:
            facts["shapes"] = shapes_of_batch(error.__traceback__)
        if self.in_worker:
            exceptions.keep(error, "fetch", **facts)
        else:
            exceptions.remember(error, facts)

    def theirs(self, error: Exception) -> bool:
        """As `Guard.theirs`, but in a child that a sample has forked the recording is the parent's, and is closed."""
        if self.recorder is process.recorder:
            return self.guard.theirs(error)
        if is_ours(error):
            return False
        clean(error)
        return True


class Indices(list):  # type: ignore[type-arg]
    """A batch's list of indices that notes when each is taken."""

    __slots__ = ("given", "marks", "stream")
    stream: Stream
    given: list[Any]
    marks: list[int]  # when each sample was begun, when the last was done, when the batch was

    def __iter__(self) -> Iterator[Any]:
        """The indices one by one: when the fetcher takes the next, the sample before it is done.

        Little more than the time is noted here, because this runs for every sample there is; what goes on is on the
        board at once.
        """
        stream = self.stream
        words, phase, measured = stream.words, stream.phase, not stream.batches & stream.seldom
        at = phase + 1
        marks = self.marks = []
        for index in self.given:
            try:
                now = clock()
                marks.append(now)
                if type(index) is int and 0 <= index <= PLAIN:
                    words[at] = index
                    words[phase] = now << 2 | 1  # FETCH_SAMPLE
                else:
                    self.show(index, now)
                if measured and len(marks) == 2:
                    if not words[H_FIRST_SAMPLE]:
                        words[H_FIRST_SAMPLE] = now
                    stream.unit = clock() - now  # what one sample costs; it stands for all
            except Exception as error:
                if stream.theirs(error):
                    raise
            # No `finally`: where the dataset ends or raises, it would run while this generator is thrown away, and
            # what a signal handler raises there is lost.
            yield index
        try:
            now = clock()
            marks.append(now)
            words[phase] = now << 2 | 2  # FETCH_COLLATE
        except Exception as error:
            if stream.theirs(error):
                raise

    def show(self, index: Any, now: int) -> None:
        """Put an index on the board that is no plain number: a name, none at all, a large or negative one."""
        stream = self.stream
        number = _number(index)
        if number is not index:
            stream.odd = self
        if type(index) is str:
            at = (stream.slot, Kind.SAMPLE, stream.loader, now, index, stream.batches, stream.samples)
            stream.recorder.board_text(*at)
        else:
            stream.words[stream.phase + 1] = number & MASK
            stream.words[stream.phase] = now << 2 | 1  # FETCH_SAMPLE


def _numbers_of(indices: Indices) -> list[int]:
    return [_number(index) for index in list.__iter__(indices)]


def _first_done(batch: Indices | tuple[int, int, int]) -> int:
    """When the first sample of a batch was: the next was begun, or the batch as a whole was done."""
    return batch.marks[1] if isinstance(batch, Indices) else batch[1]


def _first_index(trace: TracebackType | None) -> Any:
    """The index that the first `__getitem__` method on the way was called with."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "__getitem__" and code.co_argcount == 2:
            return variables(trace.tb_frame).get(code.co_varnames[1])
        trace = trace.tb_next
    return None


def _number(index: Any) -> int:
    return index if type(index) is int and LEAST <= index <= MOST else NO_INDEX


def in_sample(recorder: Recorder) -> bool:
    """A sample is being loaded, or a batch that is taken as a whole, and neither collated nor trained on."""
    for stream in _streams.values():
        if stream.recorder is recorder:  # else it is the parent's, from before a fork
            moment = stream.words[stream.phase]
            if (moment and moment & 3 < f.FETCH_COLLATE) or stream.odd is not None:
                return True
    return False


def belongs_to(fetcher: Any, loader: int) -> None:
    """Say whose batches a fetcher of this process fetches; again after a fork."""
    if fetcher is not None:
        fetcher._unstuck_loader = loader
        fetcher._unstuck = UNKNOWN


def meet(fetcher: Any, guard: Guard) -> tuple[Stream | None, bool]:
    """The stream of a fetcher's loader, and whether it goes through its indices itself. No stream: nothing records."""
    recorder = process.recording()
    if recorder is None:
        return UNKNOWN
    loader = getattr(fetcher, "_unstuck_loader", 0)  # in a worker there is only one
    stream = _streams.get(loader)
    if stream is None or stream.recorder is not recorder:
        stream = _streams[loader] = Stream(recorder, loader, guard)
    whole = type(fetcher).__name__ == "_MapDatasetFetcher" and _takes_whole(fetcher.dataset)
    stream.pass_begins(fetcher)
    known = fetcher._unstuck = (stream, bool(fetcher.auto_collation) and not whole)
    return known


def _takes_whole(dataset: Any) -> bool:
    """The dataset may be handed the whole list, as a type it may look at: asked once, the way torch asks.

    torch's own Subset goes through the list itself, unless what it is a part of takes it whole.
    """
    if (type(dataset).__module__, type(dataset).__name__) == ("torch.utils.data.dataset", "Subset"):
        dataset = dataset.dataset
    return bool(getattr(dataset, "__getitems__", None))


class Slowest:
    """Of one recording."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.known: dict[str, tuple[int, int, str, int]] = {}  # stage: begun, duration, item, index plus one
        self.due: dict[str, tuple[int, int]] = {}  # stage: when the next may be written, how long it is until then
        process.remembered.append(self.flush)

    def seen(self, stage: str, begun: int, duration: int, item: str, index: int) -> None:
        """It took longer than all before it."""
        if stage not in self.due:
            if len(self.due) >= SLOWEST_STAGES:
                return
            self.due[stage] = (0, SLOWEST_SOON)
        self.known[stage] = (begun, duration, item, index + 1)
        due, patience = self.due[stage]
        if begun + duration >= due:
            self.due[stage] = (begun + duration + patience, 2 * patience)
            self._write(stage)

    def flush(self) -> None:
        for stage in list(self.known):
            self._write(stage)

    def _write(self, stage: str) -> None:
        begun, duration, item, index = self.known.pop(stage)
        recorder = self.recorder
        text = recorder.intern(item) if item else 0
        recorder.note(Kind.SLOWEST, recorder.intern(stage), begun, duration, text, index)


def note_slowest(recorder: Recorder, stage: str, begun: int, duration: int, item: str = "", index: int = -1) -> None:
    if not _slowest or _slowest[-1].recorder is not recorder:
        _slowest[:] = [Slowest(recorder)]
    _slowest[-1].seen(stage, begun, duration, item, index)


_streams: dict[int, Stream] = {}

_slowest: list[Slowest] = []
