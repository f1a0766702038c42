"""An epoch never ends: the pass goes on beyond the length that the loader itself announces.

## What it looks at
How many batches the newest pass has given, the length that the loader announces where somebody asks for it (`len`, a
progress bar, a framework), how long earlier passes were, and how the run ended.

## Why it happens
The dataset is an endless stream (`resampled=True`, `.repeat()`, `while True`), and nothing ends the epoch: steps go on
at full speed, but validation, checkpoints and everything else that comes after an epoch never happen.

## What to do
Give the epoch an end: `.with_epoch(n)` on the loader of webdataset, `itertools.islice(loader, n)`, `max_steps` or
`limit_train_batches` of the framework.

## How sure it is
Sure that more came than was announced, also if every worker gave the whole dataset. Whether an end was meant to come
nobody can know before it should have: it speaks of a run that somebody interrupted. One that still runs may be about to
stop after a number of steps; one that did, one that failed for another reason, and a loop that left earlier passes in
the same way are left alone too.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import many
from ..rule import rule

MORE = 1.5  # times what was announced: a last, smaller batch of each worker is no endless epoch
INTERRUPTED = (-2, -15)  # SIGINT, SIGTERM: what people send; SIGKILL is the kernel's too


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for process, loader in case.training_loaders:
        announced = _announced(loader)
        if announced is None or not _interrupted(case, process):
            continue
        most = announced * max(loader.num_workers, 1) if loader.iterable else announced
        if loader.pass_batches <= most * MORE or _left_before(loader, most):
            continue
        yield case.finding(
            process,
            cause=f"The epoch does not end: {loader.name} announces {many(announced, 'batch')}, and this pass "
            f"gave {loader.pass_batches:,}.",
            seen=[
                f"pass {loader.passes} gave {many(loader.pass_batches, 'batch')}, {announced:,} were announced",
                f"steps went on until somebody interrupted them: {process.optimizer_steps:,} optimizer steps in all",
                "what comes after an epoch (validation, checkpoints) was not reached",
            ],
            remedy=Remedy(
                "Give the epoch an end: itertools.islice(loader, n), loader.with_epoch(n) with webdataset, or the "
                "framework's max_steps or limit_train_batches.",
            ),
            where=loader.reads_at or loader.created,
        )
        return


def _announced(loader: Loader) -> int | None:
    if loader.length:
        return loader.length
    if loader.dataset_length and loader.batch_size:
        return ceil(loader.dataset_length / loader.batch_size)
    return None


def _interrupted(case: Case, process: Process) -> bool:
    """Somebody ended it; it neither came to an end by itself nor failed."""
    failure = process.failure
    ended = case.run.status in INTERRUPTED if failure is None else failure.type == "KeyboardInterrupt"
    return ended and not process.alive


def _left_before(loader: Loader, most: int) -> bool:
    """Earlier passes were as long, and the loop left them: somebody counts the steps."""
    earlier = loader.passes - 1
    return earlier > 0 and loader.batches - loader.pass_batches > earlier * most * MORE
