"""An epoch never ends: the pass goes on beyond the length that the loader itself announces.

## What it looks at
How many batches the newest pass has given, the length that the loader or its dataset announces, and whether the run
ended by itself.

## Why it happens
The dataset is an endless stream (`resampled=True`, `.repeat()`, `while True`), and nothing ends the epoch: steps go on
at full speed, but validation, checkpoints and everything else that comes after an epoch never happen.

## What to do
Give the epoch an end: `.with_epoch(n)` on the loader of webdataset, `itertools.islice(loader, n)`, `max_steps` or
`limit_train_batches` of the framework.

## How sure it is
Sure that more came than was announced, also if every worker gave the whole dataset. A run that stops by itself after a
number of steps is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...model.evidence import Evidence, Loader, Process
from ...model.phrases import many
from ...model.questions import loader_name, training_loaders
from ...model.report import Finding, Remedy, Symptom
from ...model.rule import rule

MORE = 1.5  # times what was announced: a last, smaller batch of each worker is no endless epoch


@rule(explains=Symptom.STUCK, needs=("recording",), outranks=("uncaught-exception", "main-killed", "dataloader-bound"))
def check(evidence: Evidence) -> Iterator[Finding]:
    for process, loader in training_loaders(evidence):
        announced = _announced(loader)
        if announced is None or _ended_well(evidence, process):
            continue
        most = announced * max(loader.num_workers, 1) if loader.iterable else announced
        if loader.pass_batches <= most * MORE:
            continue
        yield Finding(
            cause=f"The epoch does not end: {loader_name(loader)} announces {many(announced, 'batch')}, and this pass "
            f"has given {loader.pass_batches:,}.",
            seen=[
                f"pass {loader.passes} has given {many(loader.pass_batches, 'batch')}, {announced:,} are announced",
                f"steps go on: {process.optimizer_steps:,} optimizer steps so far",
                "what comes after an epoch (validation, checkpoints) has not been reached",
            ],
            remedy=Remedy(
                "Give the epoch an end: itertools.islice(loader, n), loader.with_epoch(n) with webdataset, or the "
                "framework's max_steps or limit_train_batches.",
            ),
            node=process.node,
            rank=process.rank,
            pid=process.pid,
            where=loader.reads_at or loader.created,
        )
        return


def _announced(loader: Loader) -> int | None:
    if loader.length:
        return loader.length
    if loader.dataset_length and loader.batch_size:
        return ceil(loader.dataset_length / loader.batch_size)
    return None


def _ended_well(evidence: Evidence, process: Process) -> bool:
    """It came to its end by itself: the endless stream was meant, and somebody counted the steps."""
    return not process.alive and evidence.run.status == 0 and process.failure is None
