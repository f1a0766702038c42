"""The way to the first batch: how long it took, what was read for it, and what the user's own code did."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import NamedTuple

from ..evidence import Glance
from ..evidence.basics import Place
from ..evidence.finding import Remedy
from ..evidence.loader import DataFile, Fetching, Loader, LoaderState, Source
from ..evidence.process import Process, Progress
from ..wording.text import duration, many, percent, short
from .case import Case, is_users
from .glances import glances_of
from .loading import fetching, worker_start
from .stacks import fetch_of, place, user_frame
from .standstill import main_stack

# Documents read, tokens made, batches so far: what a process got from data libraries, with its workers, in words.
ROWS, TOKENS = "rows", "tokens"
UNITS = {"tokens": 1, "documents": 0}


class Feeding(NamedTuple):
    """Of a main process and those of its workers that are recorded, or of a worker alone."""

    sources: list[Source]
    files: list[DataFile]
    progress: list[Progress]
    steps: int
    batches: int
    asked: float | None = None  # when a loader was first asked for a batch

    @property
    def documents(self) -> int:
        """Those that were tokenised; where no tokenizer is known, rows that were read."""
        return sum(one.items for one in self.sources if one.kind == (TOKENS if self.tokenizers else ROWS))

    @property
    def tokenizers(self) -> list[Source]:
        return [one for one in self.sources if one.kind == TOKENS]

    @property
    def readers(self) -> list[Source]:
        return [one for one in self.sources if one.kind == ROWS]

    @property
    def rows(self) -> int:
        return sum(one.items for one in self.readers)

    @property
    def tokens(self) -> int:
        return sum(one.made for one in self.tokenizers)

    @property
    def began(self) -> float | None:
        told = [one.first for one in self.progress if one.need > 0 and one.first is not None]
        return min((*told, *(one.at for one in (*self.readers, *self.tokenizers))), default=None)

    @property
    def newest(self) -> float:
        told = [one.since for one in self.progress if one.need > 0]
        return max((*told, *(one.last for one in self.sources)), default=0.0)

    def filled(self, first_step: float) -> float:
        """When the last of it was read, made or reported before that step: training on the batch does not count."""
        read = [one.before for one in self.sources if one.before is not None]
        told = [one.since if one.rose is None else one.first + one.rose for one in self.progress if one.first]
        return max((one for one in (*read, *told) if one <= first_step), default=first_step)

    @property
    def buffer(self) -> Progress | None:
        """The buffer that was filled last, of those with a known need."""
        return max((one for one in self.progress if one.need > 0), key=lambda one: one.since, default=None)

    @property
    def per_document(self) -> float | None:
        """Tokens."""
        documents = sum(one.items for one in self.tokenizers)
        return self.tokens / documents if documents else None

    @property
    def rate(self) -> float | None:
        """Items of the buffer per second."""
        buffer, began = self.buffer, self.began
        if buffer is None or began is None:
            return None
        if not self.sources:
            passed, made = buffer.since - (self.asked if self.asked is not None else began), buffer.have
        else:
            made = self.documents if buffer.unit == "documents" else self.tokens or buffer.have
            passed = max(self.newest, buffer.since) - began
        return made / passed if passed > 0 and made > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds until the buffer is full, at the rate so far."""
        buffer, rate = self.buffer, self.rate
        return None if buffer is None or not rate else max(buffer.need - buffer.have, 0) / rate


def feeding(case: Case, process: Process) -> Feeding:
    crew = [process]
    if process.role == "main":
        crew += [worker for loader in process.loaders for worker in case.workers_of(process, loader)]
    return Feeding(
        sources=[source for one in crew for source in one.sources],
        files=[file for one in crew for file in one.data_files],
        progress=[told for one in crew for told in one.progress],
        steps=process.optimizer_steps,
        batches=sum(one.batches for one in process.loaders) or sum(one.batches for one in process.fetching),
        asked=min((one.began for one in process.loaders if one.began is not None), default=None),
    )


def gave_batches(process: Process) -> bool:
    """Whether the process got at least one batch."""
    return any(one.batches for one in process.loaders) or any(one.batches for one in process.fetching)


def so_far(case: Case, process: Process) -> str:
    """`1,280 documents read, 50,000 tokens made, no batch so far`."""
    fed = feeding(case, process)
    parts = [f"{many(fed.rows, 'row')} read" if fed.readers else ""]
    parts += [f"{many(sum(one.items for one in fed.tokenizers), 'document')} tokenised"] if fed.tokenizers else []
    parts += [f"{many(fed.tokens, 'token')} made"] if fed.tokenizers else []
    if not fed.sources:
        parts = ["no file opened, no document read and no token made that unstuck could see"]
    batches = max(fed.batches, fed.steps)
    parts.append(f"{many(batches, 'batch')} so far" if batches else "no batch so far")
    return ", ".join(part for part in parts if part)


def filling(fed: Feeding, *, came: bool = False) -> str:
    """`buffer 5,000/65,537 tokens (8 %), 4,100 tokens a second, full in about 15 s; 39 tokens a document, …`."""
    buffer = fed.buffer
    parts = []
    if buffer is not None:
        unit = f" {buffer.unit}" if buffer.unit else ""
        rate = f"{fed.rate:,.0f}{unit or ' items'} a second" if fed.rate else ""
        if came:
            rate = rate if fed.sources else ""  # of a reported buffer, only the newest filling is known
            at = f" at {rate}" if rate else ""
            parts.append(f"a batch needs {buffer.need:,}{unit or ' items'}, collected in `{buffer.name}`{at}")
        else:
            parts.append(f"{buffer.name} {buffer.have:,}/{buffer.need:,}{unit} ({percent(buffer.have / buffer.need)})")
            if rate and fed.left is not None:
                parts.append(f"{rate}, full in about {duration(fed.left)}")
    if fed.per_document is not None and fed.tokens:
        need = buffer.need if buffer is not None and buffer.unit == "tokens" else 0
        needs = f", so a batch needs about {many(round(need / fed.per_document), 'document')}" if need else ""
        parts.append(f"{fed.per_document:,.0f} tokens per document{needs}")
    return "; ".join(parts)


def on_the_way(fed: Feeding) -> list[str]:
    """`1,280 documents tokenised`, `50,000 tokens made`, `kept 5,000 of 65,537 tokens`, `about 40 s to go`."""
    told = [f"{many(fed.rows, 'row')} read"] if fed.rows else []
    if fed.tokens:
        told += [f"{many(fed.documents, 'document')} tokenised", f"{many(fed.tokens, 'token')} made"]
    told += [f"{one.name} {one.have:,} of {one.need:,} {one.unit}".rstrip() for one in fed.progress if one.need > 0]
    return told + ([f"about {duration(fed.left)} to go"] if fed.left else [])


def before_first(case: Case, process: Process) -> str:
    """How far it is on its way to the first batch, if it uses a data library; empty once there was a batch."""
    fed = feeding(case, process)
    if not fed.sources or fed.steps or fed.batches:
        return ""
    return "; ".join(part for part in (so_far(case, process), filling(fed)) if part)


# The first batch of a loader, or of a plain generator: how long it took, and how long those after it.
ENDED_WELL = 0
LATELY = 10.0  # seconds: without anything new for so long, it may be hung
STOOD = 1.5  # times the first: a wait that is so much longer is unusual
GROWN = 4 << 20  # bytes in that time: more than an interpreter takes for itself


class First(NamedTuple):
    """The first batch, and what came after it. Neither starting workers nor the first step is part of it."""

    fed: Feeding
    began: float  # when it was requested, and a worker or the main process was ready to load it
    seconds: float  # that it took, or has taken so far
    came: bool
    of: float  # seconds from when it was asked for to the end, or to now
    later: float | None  # seconds for each batch after it; None: there was none
    others: int  # how many those were
    later_share: float  # of the time after it that went into getting batches
    moves: bool = True  # something was read, loaded or made in the last seconds
    sampled: bool = True  # a sample of it was loaded
    loader: Loader | None = None  # None: a generator of the user's own
    loads: tuple[Fetching, ...] = ()  # who loaded it, of a loader

    @property
    def each(self) -> float | None:
        """Seconds that one of those after it took to load: where several are loaded at a time, they come that often."""
        workers = max(self.loader.num_workers, 1) if self.loader is not None else 1
        return None if self.later is None else self.later * workers


def first_batch(case: Case, process: Process) -> First | None:
    """None: nothing is known of it."""
    fed = feeding(case, process)
    loader = _loader(process)
    if loader is not None:
        return _of_loader(case, process, loader, fed)
    return _of_generator(case, process, fed) if fed.began is not None else None


def now(case: Case, process: Process) -> float:
    """Of a process that is alive: when it was looked at, or the newest that is known of anything."""
    if process.ended is not None:
        return process.ended
    host = case.host_of(process)
    sampled = host.samples[-1].at if host is not None and host.samples and process.alive else 0.0
    looked = case.looked_at or 0.0 if process.alive else 0.0
    return max(looked, sampled, process.last_sign)


def _loader(process: Process) -> Loader | None:
    """The one that is trained on; before the first step, the one that was asked last."""
    asked = [one for one in process.loaders if one.passes or one.batches or one.began is not None]
    trained = [one for one in asked if one.optimizer_steps]
    if trained:
        return min(trained, key=lambda one: one.number)
    return max(asked, key=lambda one: one.now_since, default=None)


def _of_loader(case: Case, process: Process, loader: Loader, fed: Feeding) -> First | None:
    end, loads = now(case, process), tuple(fetching(case, process, loader))
    if not loader.batches:
        if process.ended is not None and case.run.status == ENDED_WELL:
            return None  # it had none to give
        if loader.now == LoaderState.ABOUT_TO_ASK:
            return None  # an import, a logger, the model: nobody waits for its first batch yet
        sampled = _sampled(case, process, loader)
        asked = loader.now_since if loader.began is None or loader.now == LoaderState.WAITING else loader.began
        began = _ready(case, process, loader, asked)
        taken = max(end - began, 0.0)
        moves = _moves(case, process, fed, sampled, end)
        return First(fed, began, taken, came=False, of=taken, later=None, others=0, later_share=0.0, loader=loader,
                     moves=moves, sampled=bool(sampled), loads=loads)  # fmt: skip
    took = loader.first[0] if loader.first else loader.first_waits.longest
    came = loader.first_at if loader.first_at is not None else _came(loader, end)
    began = min(_ready(case, process, loader, came - took), came)
    waits, looped = loader.waits, loader.waits.total + loader.bodies.total
    share = waits.total / looped if looped else 0.0
    return First(fed, began, came - began, came=True, of=max(end - began, came - began), later=_later(loader, took),
                 others=waits.count, later_share=share, loader=loader, loads=loads)  # fmt: skip


def _ready(case: Case, process: Process, loader: Loader, asked: float) -> float:
    """When its workers could load, if that was later."""
    started = worker_start(case, process, loader)
    return asked if started is None or loader.began is None else max(asked, loader.began + started.seconds)


def _came(loader: Loader, end: float) -> float:
    """About when: what came after it is known by its length."""
    return max(end - loader.waits.total - loader.bodies.total, 0.0)


def _later(loader: Loader, first: float) -> float | None:
    """Most of them: of as many in a row as there are workers, which come at once. Else the mean, but not of one."""
    waits, again, row = loader.waits, loader.first_waits, max(loader.num_workers, 1)
    newest = loader.recent_waits
    if len(newest) == waits.count and len(newest) >= 2 * row:
        return median(sum(newest[at : at + row]) for at in range(len(newest) - row + 1)) / row
    if waits.count > 1 and waits.longest > STOOD * first:
        return (waits.total - waits.longest) / (waits.count - 1)
    if waits.count:
        return waits.mean
    return (again.total - again.longest) / (again.count - 1) if again.count > 1 else None


def _sampled(case: Case, process: Process, loader: Loader) -> list[float]:
    """When the newest samples were begun, by those who have loaded one before."""
    loading = case.workers_of(process, loader) if loader.num_workers else [process]
    return [one.now_since for each in loading if each.first_sample is not None for one in each.fetching]


def _moves(case: Case, process: Process, fed: Feeding, sampled: list[float], end: float) -> bool:
    newest = max([fed.newest, *sampled])
    return (end - newest < LATELY and newest > 0) or _grows(case, process, end)


def _grows(case: Case, process: Process, end: float) -> bool:
    """It and its workers hold more than a while ago: an index, a buffer or a cache is being filled."""
    host = case.host_of(process)
    crew = {process.pid, *(pid for one in process.loaders for pid in one.pids)}
    held = [
        sum(one.anonymous for one in sample.processes if one.pid in crew)
        for sample in (host.samples if host is not None else ())
        if end - LATELY <= sample.at <= end
    ]
    return len(held) > 1 and held[-1] - held[0] >= GROWN


def _of_generator(case: Case, process: Process, fed: Feeding) -> First | None:
    """Only where it goes on asking: who tokenises everything before he trains has no first batch to wait for."""
    first, last, steps = process.first_step, process.last_step, process.optimizer_steps
    if not fed.sources:
        fed = fed._replace(progress=[one for one in fed.progress if _is_filled(one, first)])
    asks = fed.buffer is not None or any(one.later for one in process.sources)
    began, end = fed.began, now(case, process)
    if began is None or not asks:
        return None
    if not steps or first is None or last is None:
        unknown = process.ended is not None and case.run.status == ENDED_WELL  # it may train without an optimizer
        taken = end - began
        return None if steps or unknown else First(fed, began, taken, came=False, of=taken, later=None, others=0,
                                                   later_share=0.0, moves=end - fed.newest < LATELY)  # fmt: skip
    spent = sum(one.later for one in process.sources)
    later = (last - first) / (steps - 1) if steps > 1 else None
    share = spent / (last - first) if last > first else 0.0
    took = max(min(fed.filled(first), first) - began, 0.0)
    return First(fed, began, took, came=True, of=end - began, later=later, others=steps - 1, later_share=share)


def _is_filled(one: Progress, first_step: float | None) -> bool:
    """Before the first step, and not with the steps: that would be how far the training has come."""
    if one.need <= 0 or one.first is None or one.since <= one.first:
        return False
    return first_step is None or one.rose is not None or one.since <= first_step


# What the user's own code did until the first batch was there, as far as samples, looks and lines tell it.
MOST = 0.5  # of the first batch in one sample: then it is what comes before the sample that takes long


class Warming(NamedTuple):
    """Of one first batch."""

    where: Place | None  # the line that it was met at most often, or where samples are loaded
    met: int  # looks that met it there, of
    looks: int
    longest: float  # seconds of the sample that took longest
    usual: float  # and of most others
    first_sample: bool  # it has not come, and no sample of it was loaded yet


def warming(case: Case, main: Process, first: First) -> Warming:
    lines, looks = _met(case, main, first)
    loader = first.loader
    at, met = lines[0] if lines else (None, 0)
    if at is None and loader is not None:
        at = loader.reads_at if is_users(loader.reads_at) else loader.created
    timed = [one.sample_times for one in first.loads if one.sample_times.count]
    return Warming(
        where=at,
        met=met,
        looks=looks,
        longest=max((one.longest for one in timed), default=0.0),
        usual=max((one.p50 for one in timed), default=0.0),
        first_sample=not first.came and not first.sampled,
    )


def _met(case: Case, main: Process, first: First) -> tuple[list[tuple[Place, int]], int]:
    """Lines of the user's that were met while it was loaded. A main process with workers only waits."""
    loader = first.loader
    if loader is None or not loader.num_workers:
        looks = glances_of(case, main, first.began, first.began + first.seconds)
        return _common(looks), len(looks)
    found = []
    for worker in () if first.came else case.workers_of(main, loader):
        stack = main_stack(case, worker.pid)
        inside = fetch_of(stack) if stack is not None else None
        at = place(user_frame(inside[1])) if inside is not None else None
        found += [(at, 1)] if at is not None else []
    return found[:1], len(found)


def _common(looks: list[Glance]) -> list[tuple[Place, int]]:
    """The innermost function of the user's that most of them met, at its most frequent line."""
    met = [[at for frame in one.frames if (at := place(frame)) is not None and is_users(at)] for one in looks]
    counted = Counter(name for each in met for name in dict.fromkeys((at.file, at.function) for at in each))
    most = max(counted.values(), default=0)
    for each in met:
        for at in each:
            if counted[at.file, at.function] == most:
                lines = Counter(one for other in met for one in other if one.function == at.function)
                return [(lines.most_common(1)[0][0], most)]
    return []


def words(warm: Warming, first: First) -> str:
    """What the time went into, for the cause: `nearly all in one sample`."""
    if not first.came:
        return (
            "" if first.loader is None else "still in its first sample" if warm.first_sample else "samples keep coming"
        )
    return "nearly all in one sample" if warm.longest >= MOST * first.seconds else ""


def seen(warm: Warming, first: First) -> list[str]:
    told = []
    at = f" in {warm.where.function} ({short(warm.where)})" if warm.where is not None else ""
    if warm.longest and first.came:
        told.append(f"one sample took {duration(warm.longest)}{at}, most others {duration(warm.usual)}")
    if warm.met and warm.where is not None:
        told.append(f"{warm.met} of {many(warm.looks, 'stack sample')} were{at}")
    return told or ([f"the code that loads it:{at.removeprefix(' in')}"] if at else [])


def advice(warm: Warming, first: First) -> list[Remedy]:
    """What would make it faster, where the user's own code takes the time."""
    loader = first.loader
    at = f"{warm.where.function} ({short(warm.where)})" if warm.where is not None else "the loader's own code"
    if loader is None:
        return [Remedy(f"Speed up what {at} does before it has enough for a batch")]
    if not warm.first_sample and warm.longest < MOST * first.seconds:
        than = (
            ": the first samples take far longer there than later ones" if first.came else ", where samples are loaded"
        )
        return [Remedy(f"Speed up {at}{than}")]
    found = [Remedy(f"Do what {at} does before its first sample once, and keep the result on disk")]
    if loader.num_workers > 1:
        forked = "; forked workers inherit it" if loader.context in (None, "fork") else ""
        found.append(Remedy(f"Do it once in the main process, not in each of {loader.num_workers} workers{forked}"))
    if loader.iterable:
        found.append(Remedy("Yield samples before the buffer is full, if it fills a buffer"))
    return found
