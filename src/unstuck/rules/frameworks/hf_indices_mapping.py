"""Rows of a dataset are read one by one through a list of indices, which takes most of the time of loading.

## What it looks at
Hugging Face datasets that hold a list of indices (`_indices`), as `shuffle`, `select`, `filter`, `sort` and
`train_test_split` leave it: how long reading rows through it took, inside of the samples of a loader or in the user's
own loop and `map`, against all of loading, and how much the loop waits for data.

## Why it happens
These methods move no row. They keep the numbers of the rows, in the order in which they are to come. A read that was
one piece of memory before becomes a look-up and a small piece for every single row, put together again in the end:
slices of a thousand rows take ten times as long, and more where they have to come from a disk. Rows that are asked for
one by one, as a DataLoader does, come in pieces anyway: there it is the look-up alone.

## What to do
Write the rows in their new order once, `dataset = dataset.flatten_indices()`; or leave shuffling to the DataLoader
(`shuffle=True`), or to `to_iterable_dataset(num_shards=…).shuffle(buffer_size=…)`, which reads in one piece.

## How sure it is
The seconds are measured around the reads themselves, without decoding and transforms. It speaks where they are half of
loading and the loop waits for data, or where they are half of what the main process does, and two seconds. A list of
indices that costs little, because samples take long for another reason or the loop keeps up, is no finding. Where it
cannot be known whether a GPU was busy meanwhile, it is only possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.gpu import GPU_BUSY, gpu_use
from ...analysis.loading import fetching, waiting
from ...analysis.passes import each_once
from ...analysis.stages import together
from ...evidence.basics import Place, Timing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Call, Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, percent, short
from ..rule import rule

READING = "rows through an indices mapping (datasets)"  # as the recording calls it
ROWS, MAPPING = "rows", "indices mapping"
DATASET = "datasets.arrow_dataset.Dataset"
SHARE = 0.5  # of loading: below that, it would remain slow without the list
SECONDS = 2.0  # in the main process's own code: less is not worth writing a dataset anew


class Made(NamedTuple):
    """The line that left a list of indices."""

    method: str
    where: Place | None


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    of_loaders = [_of_loader(case, main, loader) for main in case.mains for loader in main.loaders]
    yield from each_once([*of_loaders, *(_of_main(case, main) for main in case.mains)])


def _of_loader(case: Case, main: Process, loader: Loader) -> Finding | None:
    loading = case.workers_of(main, loader) if loader.num_workers else [main]
    reads = together(one.stages[READING] for one in loading if READING in one.stages)
    known = fetching(case, main, loader)
    fetched = sum(one.fetches.total for one in known)
    if not fetched or reads.total < SHARE * fetched or not waiting(loader).matters:
        return None
    gpu = gpu_use(case, main)
    if (gpu.busy or 0.0) >= GPU_BUSY or (loader.num_workers == 0 and len(main.fetching) > 1):
        return None
    share, made = reads.total / fetched, _made(main)
    name = loader.name
    return _found(
        case,
        main,
        made,
        f"{name[:1].upper()}{name[1:]} reads its rows one by one through a list of indices{_left(made)}: that takes "
        f"{percent(share)} of loading, and the loop waits for data {percent(waiting(loader).share)} of the time.",
        [
            f"{many(reads.count, 'read')} through the list took {duration(reads.total)} of the {duration(fetched)} of "
            f"loading, {duration(reads.mean)} each",
            f"a batch is waited for {duration(loader.waits.mean)} and trained on {duration(loader.bodies.mean)}",
            *gpu.words,
        ],
        _remedy(made, loader),
        Subject("loader", name),
        certainty=gpu.certainty,
        lost=share * waiting(loader).share,
    )


def _of_main(case: Case, main: Process) -> Finding | None:
    """In a loop over the dataset itself, or in `map`."""
    reads = [one for one in main.calls if (one.what, one.name) == (ROWS, READING)]
    worst = max(reads, key=lambda one: one.timing.total, default=None)
    if worst is None or worst.timing.total < SECONDS or worst.timing.total < SHARE * _lasted(worst):
        return None
    made = _made(main)
    return _found(
        case,
        main,
        made,
        f"The rows that are read at {short(worst.where)} come one by one through a list of indices{_left(made)}: that "
        f"took {duration(worst.timing.total)}, {percent(min(worst.timing.total / _lasted(worst), 1.0))} of the time "
        "from the first of these reads to the last.",
        [f"reads through the list at {short(worst.where)}: {_in_words(worst.timing)}"],
        _remedy(made, None),
        Subject("line", short(worst.where)),
        worst.where,
    )


def _lasted(call: Call) -> float:
    return max(call.last - call.at, call.timing.total, 1e-9)


def _in_words(timing: Timing) -> str:
    return f"{duration(timing.total)} in all, the longest stretch {duration(timing.longest)}"


def _found(case: Case,
    main: Process, made: Made | None, cause: str, seen: list[str], remedy: Remedy, subject: Subject,
    where: Place | None = None, certainty: str = "", lost: float | None = None,
) -> Finding:  # fmt: skip
    told = [] if made is None or made.where is None else [f"the list of indices is left by {made.method}"]
    return case.finding(
        main,
        cause=cause,
        seen=[*seen, *(f"{one} at {made.where.file}:{made.where.line}" for one in told if made and made.where)],
        remedy=remedy,
        where=made.where if made is not None and made.where is not None else where,
        subject=subject,
        certainty=certainty,
        share=lost,
    )


def _made(main: Process) -> Made | None:
    """The newest line that left one. A filter is known by its own call."""
    calls = [(one.at, Made(one.name, one.where)) for one in main.calls if one.what == MAPPING]
    filters = [(one.at, Made("filter", one.where)) for one in main.sources if one.name == "datasets.filter"]
    return max([*calls, *filters], key=lambda one: one[0])[1] if calls or filters else None


def _left(made: Made | None) -> str:
    if made is None:
        return ""
    return f", which {made.method}() has left" + (f" at {short(made.where)}" if made.where is not None else "")


def _remedy(made: Made | None, loader: Loader | None) -> Remedy:
    after = f"after {made.method}() at {short(made.where)}" if made is not None and made.where is not None else "there"
    text = f"Write the rows in their new order once: `dataset = dataset.flatten_indices()` {after}."
    if made is None or made.method != "shuffle":
        return Remedy(text)
    if loader is None or loader.dataset != DATASET:
        return Remedy(text)
    if loader.shuffle:
        return Remedy(f"Leave shuffle() at {short(made.where)} out, the DataLoader shuffles anyway. Or: {text}")
    return Remedy(f"{text} Or leave shuffling to the loader, {settings(loader, shuffle=True)}, instead of shuffle().")
