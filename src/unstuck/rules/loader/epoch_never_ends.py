"""An epoch never ends: the loader goes on beyond the length that it reports itself.

## It means
The dataset is an endless stream (`resampled=True`, `.repeat()`, `while True`), and nothing ends the epoch. Steps go on
at full speed, but validation, checkpoints and everything else that comes after an epoch never happen.

## Fix
Give the epoch an end, in the training loop:
```python
# before
for batch in loader:
    train(batch)

# after
for batch in itertools.islice(loader, steps_per_epoch):
    train(batch)
```
With webdataset, end it on the loader. On the dataset, `with_epoch(n)` counts per worker, so an epoch gets num_workers
times as much.
```python
loader = wds.WebLoader(dataset, batch_size=None, num_workers=4).with_epoch(steps_per_epoch)
```
In Lightning, limit the epoch with `Trainer(limit_train_batches=...)`. In transformers,
`TrainingArguments(max_steps=...)` limits the whole training.

## Check it yourself
Count beyond the reported end:
```python
print(len(loader))
print(sum(1 for _ in itertools.islice(loader, 2 * len(loader))))  # more than len(loader): it goes on
```

## Not this, if
- the epoch ends, but len() is wrong: [iterable-length-lies](iterable-length-lies.md)
- every worker yields the whole dataset: [iterable-duplicated](iterable-duplicated.md)
- no batch arrives at all: [loop-without-batch](loop-without-batch.md)
- the last batch has come, and workers are slow to end: [loader-shutdown-slow-join](loader-shutdown-slow-join.md)

## How sure
Judged from how many batches the newest epoch has yielded, the length that the loader reports where it is asked for one
(`len`, a progress bar, a framework), how long earlier epochs were, and how the run ended. Certain that more batches
came than were reported, also if every worker yields the whole dataset. Likely that an end was missing: it speaks of a
run that was interrupted. A run that still goes on may be about to stop after a number of steps; one that did, one that
failed for another reason, and a loop that left earlier epochs in the same way are left alone.

## Seen in
- https://github.com/webdataset/webdataset/issues/379: `resampled=True` without `with_epoch(n)` iterates indefinitely.
- https://github.com/webdataset/webdataset/issues/278: why `with_epoch` is needed with an endless stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import in_words_of
from ...wording.text import many
from ..rule import Level, rule

MORE = 1.5  # times the reported length: a last, smaller batch of each worker is no endless epoch
INTERRUPTED = (-2, -15)  # SIGINT, SIGTERM: what people send; SIGKILL comes from the kernel, too


@rule(explains=Symptom.WRONG, certainty=Certainty.LIKELY, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for process, loader in case.training_loaders:
        reported = _length(loader)
        if reported is None or not _interrupted(case, process):
            continue
        most = reported * max(loader.num_workers, 1) if loader.iterable else reported
        if loader.pass_batches <= most * MORE or _left_before(loader, most):
            continue
        fix, *others = _ways(process, reported)
        yield case.finding(
            process,
            cause=f"This epoch never ends: {_compared(loader, reported)}.",
            seen=[
                f"it was interrupted in epoch {loader.passes}, after {many(process.optimizer_steps, 'optimizer step')}",
                "what comes after an epoch (validation, checkpoints) was never reached",
                f"loader: {loader.name}",
            ],
            remedy=fix,
            alternatives=others,
            where=loader.reads_at or loader.created,
        )
        return


def _compared(loader: Loader, reported: int) -> str:
    if loader.length:
        return f"len(loader) is {reported:,}, {many(loader.pass_batches, 'batch')} were produced"
    return f"its dataset is {many(reported, 'batch')} long, {loader.pass_batches:,} were produced"


def _ways(process: Process, reported: int) -> list[Remedy]:
    """The fix, and other ways out."""
    loop = Remedy(
        "End the epoch after a fixed number of batches", code=[f"for batch in itertools.islice(loader, {reported}):"]
    )
    on_loader = Remedy(
        "With webdataset, end it on the loader (on the dataset it counts per worker)",
        code=[f"loader = wds.WebLoader(...).with_epoch({reported})"],
    )
    limited = in_words_of(process, "", lightning=f"Trainer(limit_train_batches={reported})")
    if limited:
        return [Remedy("Limit the batches of an epoch in the trainer", code=[limited]), on_loader]
    return [loop, on_loader]


def _length(loader: Loader) -> int | None:
    if loader.length:
        return loader.length
    if loader.dataset_length and loader.batch_size:
        return ceil(loader.dataset_length / loader.batch_size)
    return None


def _interrupted(case: Case, process: Process) -> bool:
    """It was interrupted: it neither came to an end by itself nor failed."""
    failure = process.failure
    ended = case.run.status in INTERRUPTED if failure is None else failure.type == "KeyboardInterrupt"
    return ended and not process.alive


def _left_before(loader: Loader, most: int) -> bool:
    """Earlier epochs were as long, and the loop left them: the training counts its steps."""
    earlier = loader.passes - 1
    return earlier > 0 and loader.batches - loader.pass_batches > earlier * most * MORE
