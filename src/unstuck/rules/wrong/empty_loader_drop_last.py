"""Epochs are empty: the loader gives no batch at all, and nothing says so.

## What it looks at
Passes over a loader that came to their end without a single batch, again each time; whether it drops incomplete
batches, and how many samples there were.

## Why it happens
`drop_last=True` with fewer samples than batch_size leaves no batch. That happens to small datasets, to a share of one
rank or one worker, and after batch_size was raised. Or there is no sample to begin with: a pattern that matches no
file, a filter that keeps nothing, an empty sampler. A `for` loop over nothing is no error, so epochs "finish" at once.

## What to do
Lower batch_size or set `drop_last=False`; where there are no samples, look at what the dataset was made of. A line
`assert len(loader) > 0` before training makes it loud.

## How sure it is
Certain that no batch came. With `drop_last` it speaks at the first such epoch; of a loader without samples only when
nothing else was trained on either, and more than once: an empty validation set may be meant. An exception that came
right after such a pass, before any other batch or step, is its consequence: nothing to divide by, a name never set, a
list with nothing in it. Then one pass is enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.passes import each_once, fetched, raised_after_nothing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import many, said, short
from ..rule import rule

AGAIN = 2  # empty epochs: one may be a look at whether there is something


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(
        _judge(case, main, loader)
        for main in case.mains
        for loader in main.loaders
        if loader.ended and not loader.batches
    )


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    samples = _samples(case, main, loader)
    if loader.iterable and samples and samples >= (loader.batch_size or 1):
        return None  # there would be batches, if not each worker had its own: that is another rule's
    dropped = loader.drop_last and samples != 0
    raised = raised_after_nothing(main, main.failure) is loader
    meant = not dropped and (main.optimizer_steps or len(loader.ended) < AGAIN)
    if meant and not raised:
        return None
    return case.finding(
        main,
        cause=f"Every epoch is empty: {loader.name} gives no batch, because {_why(loader, samples, dropped)}.",
        seen=[*_seen(main, loader, samples), *(_led_to(main) if raised else ())],
        remedy=_remedy(loader, samples) if dropped else _empty_remedy(loader),
        onset_s=loader.ended[0].at,
        where=loader.created if is_users(loader.created) else loader.reads_at,
        subject=Subject("loader", loader.name),
        certainty=Certainty.LIKELY.value if meant else "",
    )


def _samples(case: Case, main: Process, loader: Loader) -> int | None:
    """How many there are for one epoch. None: nobody knows."""
    if loader.iterable:
        return sum(one.samples for one in fetched(case, main, loader)) // max(loader.passes, 1)
    return loader.dataset_length


def _why(loader: Loader, samples: int | None, dropped: bool) -> str:
    if dropped:
        there = "its samples do" if samples is None else f"its {many(samples, 'sample')} {_do(samples)}"
        return f"{there} not fill one batch of {loader.batch_size}, and drop_last=True drops what does not"
    if loader.iterable:
        return "its dataset yields nothing"
    own = _last(loader.batch_sampler)
    sampler = own if own not in ("BatchSampler", "sampler") else _last(loader.sampler)
    if samples == 0 or sampler == "SequentialSampler":
        return "its dataset has no samples"
    return f"its {sampler} gives no indices"


def _do(samples: int) -> str:
    return "does" if samples == 1 else "do"


def _last(name: str | None) -> str:
    return (name or "sampler").rpartition(".")[2]


def _seen(main: Process, loader: Loader, samples: int | None) -> Iterator[str]:
    yield f"{many(loader.passes, 'pass')} came to an end without a batch"
    shape = f"batch_size={loader.batch_size}, drop_last={loader.drop_last}, num_workers={loader.num_workers}"
    yield shape if samples is None else f"{shape}, {many(samples, 'sample')}"
    if not main.optimizer_steps:
        yield "no optimizer step was made"


def _led_to(main: Process) -> Iterator[str]:
    failure = main.failure
    if failure is not None:
        place = user_line(failure)
        yield f"right after it: {said(failure)}" + (f", at {short(place)}" if place is not None else "")


def _remedy(loader: Loader, samples: int | None) -> Remedy:
    smaller = "a smaller batch_size" if samples is None else f"batch_size={samples} or less"
    keep = settings(loader, drop_last=False)
    sampler = _last(loader.sampler)
    share = f" {sampler} gives each rank only a share of the samples." if "Distributed" in sampler else ""
    return Remedy(
        f"Set {keep}, or {smaller}.{share} Put `assert len(loader) > 0` before the loop, so that an empty "
        "loader ends the run instead of training on nothing."
        if not loader.iterable
        else f"Set {keep}, or {smaller}, and count the steps of an epoch, so that an empty one ends the run."
    )


def _empty_remedy(loader: Loader) -> Remedy:
    place = f" ({short(loader.created)})" if is_users(loader.created) else ""
    dataset = _last(loader.dataset) if loader.dataset else "the dataset"
    return Remedy(
        f"Look at what {dataset} is made of{place}: a path or pattern that matches nothing, a filter that keeps "
        "nothing, a share that is empty. Stop when the first epoch brings no batch."
    )
