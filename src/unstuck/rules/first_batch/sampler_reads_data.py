"""The sampler reads the dataset in the main process to decide what comes next.

## What it looks at
How long the main process spent in the sampler for each loader, over all passes; whether a sampler of the user's own has
the dataset; how much of that time there is for each sample that is loaded; and, where the main process was looked at
meanwhile, whether the dataset's `__getitem__` was on its stack below the sampler.

## Why it happens
A sampler that sorts by length, fills buckets or balances classes needs to know something of every sample. If it takes
that from `dataset[index]`, every sample is read and decoded to be thrown away again: in one process, without workers,
before the first batch, and again in every pass if the sampler does so when it is iterated over.

## What to do
Work out lengths, buckets or labels once, keep them in a file or in the dataset, and let the sampler read those.

## How sure it is
Certain of the seconds. It speaks from three seconds and a fifth of the run on, and only if the dataset was seen being
read below the sampler, or if the sampler has the dataset and takes a fifth of a millisecond or more for each sample:
to shuffle, sort or deal out indices costs a hundredth of that. A scan that is done once while the sampler is made is no
matter of drawing, and is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, is_users
from ...analysis.loading import fetching, lasted
from ...analysis.stacks import LOADER_FILES, is_idle_worker, place
from ...analysis.standstill import main_stack, mains, workers
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Frame, Seen, own_calls
from ...evidence.loader import Loader, LoaderState
from ...evidence.process import Process
from ...wording.text import duration, line, many, percent, short
from ..rule import rule

LONG = 3.0  # seconds in the sampler: what is shorter nobody notices
SHARE = 0.2  # of the run, from its first pass on
EACH = 200e-6  # seconds for each sample that is loaded: indices alone take a microsecond or two
MIN_SECONDS = 1.0  # seconds of samples that met it so, where nothing is recorded and `--seconds` was asked for
GOING_ON = (LoaderState.STARTING, LoaderState.WAITING)


class Drawn(NamedTuple):
    """Of one loader."""

    seconds: float
    going_on: bool
    frames: tuple[Frame, Frame] | None  # the sampler's and the dataset's, where they were seen


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording|stacks",),
    outranks=("worker-respawn-epoch-gap", "spawn-pickle-large-dataset", "stuck-in-user-code"),
)
def check(case: Case) -> Iterator[Finding]:
    yield from _recorded(case) if case.recording is not None else _met(case)


def _met(case: Case) -> Iterator[Finding]:
    for one in met(case):
        if one.seconds < (LONG if case.samples is None else MIN_SECONDS):
            continue
        sampler, dataset = one.frames
        where = place(sampler)
        yield case.finding(
            one.main,
            cause=f"The sampler at {short(where)} reads the dataset in the main process to decide what comes next, and "
            f"nothing is trained meanwhile.",
            seen=[_calls(sampler, dataset), one.told],
            remedy=_remedy("the sampler", where),
            where=where,
        )


def _recorded(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for loader in main.loaders:
            drawn = _drawn(case, main, loader)
            if drawn is None:
                continue
            ran = max(lasted(main), drawn.seconds)
            if drawn.seconds < LONG or drawn.seconds < SHARE * ran:
                continue
            if drawn.frames is None and not _takes_too_long(case, main, loader):
                continue
            where = _sampler_line(loader, drawn)
            yield case.finding(
                main,
                cause=_cause(loader, drawn, ran, where),
                seen=list(_seen(case, main, loader, drawn)),
                remedy=_remedy(_sampler(loader), where),
                onset_s=loader.began,
                where=where,
                subject=Subject("loader", loader.name),
            )


def _drawn(case: Case, main: Process, loader: Loader) -> Drawn | None:
    """What is written down, and what goes on: the first indices are drawn before a batch can be waited for."""
    frames = reading_frames(case, main, loader)
    live = (
        frames is not None
        and main.alive
        and loader.now in GOING_ON
        and any(one.pid == main.pid for one in case.stacks or ())
    )
    since = max((case.looked_at or main.last_sign) - loader.now_since, 0.0) if live else 0.0
    if not loader.drawing.count and not live:
        return None
    return Drawn(loader.drawing.total + since, live, frames)


def _takes_too_long(case: Case, main: Process, loader: Loader) -> bool:
    samples = sum(one.samples for one in fetching(case, main, loader))
    return loader.sampler_holds and samples > 0 and loader.drawing.total / samples >= EACH


def _sampler_line(loader: Loader, drawn: Drawn) -> Place | None:
    return place(drawn.frames[0]) if drawn.frames is not None else loader.sampler_at or loader.created


def _sampler(loader: Loader) -> str:
    own = [one for one in (loader.batch_sampler, loader.sampler) if one and not one.startswith("torch.utils.data")]
    return own[0].rpartition(".")[2] if own else "the sampler"


def _cause(loader: Loader, drawn: Drawn, ran: float, where: Place | None) -> str:
    so_far = " so far" if drawn.going_on else ""
    at = f" ({short(where)})" if where is not None else ""
    return (
        f"{_sampler(loader)}{at} reads the dataset in the main process to decide what comes next: that took "
        f"{duration(drawn.seconds)}{so_far}, {percent(drawn.seconds / ran)} of the run, and nothing was trained "
        f"meanwhile. It is the sampler of {loader.name}."
    )


def _calls(sampler: Frame, dataset: Frame) -> str:
    return (
        f"{line(place(dataset))} ({dataset.function}) was called from {line(place(sampler))} ({sampler.function}), "
        "in the main process, while indices were drawn"
    )


def _seen(case: Case, main: Process, loader: Loader, drawn: Drawn) -> Iterator[str]:
    if drawn.frames is not None:
        yield _calls(*drawn.frames)
    drawing = loader.drawing
    if drawing.count:
        yield (
            f"drawing indices took {duration(drawing.total)} for {many(drawing.count, 'batch')} in "
            f"{many(loader.passes, 'pass')}, {duration(drawing.longest)} for one of them"
        )
    samples = sum(one.samples for one in fetching(case, main, loader))
    if samples and drawing.count:
        yield f"that is {duration(drawing.total / samples)} for each of the {samples:,} samples that were loaded"
    if loader.first:
        came = (loader.first_at or 0.0) - (loader.began or 0.0)
        yield f"the first batch came {duration(came)} after the first pass was begun"


def _remedy(name: str, where: Place | None) -> Remedy:
    at = f" at {short(where)}" if where is not None else ""
    return Remedy(
        f"Give {name} what it needs instead of the dataset: go through the data once, keep the lengths (or buckets, or "
        f"labels) in a file, and look them up{at}: `lengths = numpy.load('lengths.npy')`. If they can be had without "
        "decoding, from file sizes, headers or a column of a table, read only those."
    )


DRAWS = ("_next_index", "_reset", "_try_put_index")  # of torch's iterators: what they call is the sampler
MIN_SHARE = 0.3  # of the samples of a main thread
READS = ("__getitem__", "__getitems__")


class Met(NamedTuple):
    """A main process that was met so, without a recording."""

    main: Seen
    frames: tuple[Frame, Frame]  # the sampler's, the dataset's
    seconds: float  # for which its workers have waited for an index, or for which samples met it so
    told: str


def met(case: Case) -> Iterator[Met]:
    """At both looks, while its workers had nothing to do for as long as they are there; or again and again."""
    for main, stack in mains(case):
        now, then = between(stack.calls), between(own_calls(stack.before))
        idle = [one for one in workers(case, main) if _is_idle(case, one)]
        if now is not None and then is not None and idle and len(idle) == len(workers(case, main)):
            age = min(one.age for one in idle)
            yield Met(main, now, age, f"its workers are {duration(age)} old, and wait for an index")
            continue
        mine = [one for one in case.samples or () if one.pid == one.tid == main.pid]
        found = [(one, pair) for one in mine if (pair := between(one.frames)) is not None]
        seconds, looked = sum(one.seconds for one, _ in found), sum(one.seconds for one in mine)
        if found and seconds >= MIN_SHARE * looked:
            told = f"it was met so for {duration(seconds)} of {duration(looked)} of samples"
            yield Met(main, found[0][1], seconds, told)


def _is_idle(case: Case, worker: Seen) -> bool:
    stack = main_stack(case, worker.pid)
    return stack is not None and is_idle_worker(stack.calls)


def reading_frames(case: Case, main: Process, loader: Loader) -> tuple[Frame, Frame] | None:
    """The sampler's line and the dataset's, from a look or from one of the watcher's glances."""
    for frames in _stacks(case, main):
        found = between(frames, loader)
        if found is not None:
            return found
    return None


def _stacks(case: Case, main: Process) -> list[list[Frame]]:
    """Innermost first."""
    live = [one.calls for one in case.stacks or () if one.pid == main.pid]
    host = case.host_of(main)
    return live + [one.frames for one in (host.glances if host else ()) if one.pid == main.pid]


def between(frames: list[Frame], loader: Loader | None = None) -> tuple[Frame, Frame] | None:
    draws = next((at for at, one in enumerate(frames) if one.name in DRAWS and _in_loader(one)), None)
    if draws is None:
        return None
    inner = [one for one in frames[:draws] if not one.native]
    reads = next((at for at, one in enumerate(inner) if one.name in READS and _of_dataset(one, loader)), None)
    if reads is None:
        return None
    sampler = next((one for one in inner[reads + 1 :] if is_users(Place(one.file, one.line, one.function))), None)
    return None if sampler is None else (sampler, inner[reads])


def _in_loader(frame: Frame) -> bool:
    return any(part in frame.file for part in LOADER_FILES)


def _of_dataset(frame: Frame, loader: Loader | None) -> bool:
    """A list has a `__getitem__`, too, but none that is seen; a dataset of a library is one of the user's choice."""
    return loader is None or loader.reads_at is None or frame.file == loader.reads_at.file
