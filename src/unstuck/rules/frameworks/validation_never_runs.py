"""Validation never runs, because an epoch has fewer batches than len() says.

## It means
Lightning validates after a batch with a certain number: by default the last, which is `len(train_dataloader)`. Where
fewer come, the epoch ends without it, silently: no validation, no checkpoint by its metric, no early stop.
transformers' Trainer with `eval_strategy="steps"` does the same when it never reaches that step. A `__len__` that
rounds up, counts what is skipped later, or forgets that drop_last drops the rest of each worker is all it takes. For a
loader without a length, it is a `val_check_interval` that no epoch reaches.

## Fix
Make `__len__` count what comes:

```python
# before
def __len__(self):
    return len(self.cells)


# after: drop_last drops the incomplete batch of each worker
def __len__(self):
    sizes = [len(self.cells[worker :: self.workers]) for worker in range(self.workers)]
    return sum(size // self.batch_size * self.batch_size for size in sizes)
```

or remove it: Lightning then looks one batch ahead and sees the end by itself. To have a validation at once, use a
number that is reached:

```python
Trainer(limit_train_batches=92)  # an epoch ends there
Trainer(val_check_interval=50, check_val_every_n_epoch=None)  # counts batches across epochs
TrainingArguments(eval_strategy="epoch")  # evaluation_strategy before transformers 4.41
```

## Check it yourself

```python
print("len() says", len(loader), "and it yields", sum(1 for _ in loader))
```

## Not this, if
- validation runs, only the length is wrong: [iterable-length-lies](iterable-length-lies.md)
- drop_last drops a real part of the data: [iterable-drop-last-per-worker](iterable-drop-last-per-worker.md)
- samples are missing because a shard is damaged: [handler-drops-shard-rest](handler-drops-shard-rest.md)
- the epochs were stopped by `max_steps` or early stopping: then no validation is due

## How sure
Judged from how many batches the framework was told that an epoch has, after which of them it validates, how many really
came, and how many validations there were, without the sanity check. Certain: it counts epochs that reached the end of
their data before that number and had no validation. Epochs that were stopped (`max_steps`, early stopping), and those
at whose end none was due, are left alone.

## Seen in
- https://github.com/Lightning-AI/pytorch-lightning/issues/10290: a wrong length of an IterableDataset skips validation
- https://github.com/Lightning-AI/pytorch-lightning/issues/19624: drop_last and workers make the length wrong
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import each_once
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.frameworks import LIGHTNING, Framework
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.text import many, short
from ..rule import rule

RENAMED = [4, 41]  # the version of transformers in which evaluation_strategy became eval_strategy


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    outranks=("iterable-length-lies", "iterable-drop-last-per-worker"),
    yields_to=("shard-read-errors", "handler-drops-shard-rest"),
    predicts=True,
)
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, one) for main in case.mains for one in main.frameworks)


def _judge(case: Case, main: Process, one: Framework) -> Finding | None:
    if not one.missed or one.delivered is None or not _after(one):
        return None
    loader = _loader(main, one)
    name = loader.name if loader is not None else "its data"
    interval = " (val_check_interval)" if one.announced is None else ""
    has = "which these epochs never reach" if one.validations else f"but an epoch has {one.delivered:,}"
    remedy, *others = _remedies(one, loader)
    return case.finding(
        main,
        cause=f"{_how_often(one)}: {one.name} waits for batch {_after(one):,}{interval}, {has}.",
        seen=list(_seen(main, one, loader)),
        remedy=remedy,
        alternatives=others,
        where=loader.reads_at if loader is not None and is_users(loader.reads_at) else one.where,
        subject=Subject("loader", name),
    )


def _loader(main: Process, one: Framework) -> Loader | None:
    """The one that was trained on and fell short."""
    trained = [loader for loader in main.loaders if loader.optimizer_steps > 0]
    fell = [loader for loader in trained if any(each.batches == one.delivered for each in loader.ended)]
    return next(iter(fell or trained), None)


def _after(one: Framework) -> int:
    return one.validates_after or one.announced or 0


def _how_often(one: Framework) -> str:
    if not one.validations:
        return "Validation never runs"
    return f"Validation was skipped in {one.missed:,} of {many(one.epochs, 'epoch')}"


def _seen(main: Process, one: Framework, loader: Loader | None) -> Iterator[str]:
    if one.announced is not None:
        yield f"len() says {many(one.announced, 'batch')}, the newest epoch yielded {one.delivered:,}"
    yield f"{one.short:,} of {many(one.epochs, 'epoch')} ended early"
    if one.validations:
        yield f"{many(one.validations, 'validation')} ran, sanity check not counted"
    if loader is not None:
        size = f", batch_size={loader.batch_size}" if loader.batch_size else ""
        dropped = ", drop_last=True" if loader.drop_last else ""
        length = f"len(dataset)={loader.dataset_length:,}, " if loader.dataset_length is not None else ""
        yield f"{loader.name}: {length}{many(loader.num_workers, 'worker')}{size}{dropped}"
    if not main.saved:
        yield "no checkpoint was saved"


def _remedies(one: Framework, loader: Loader | None) -> list[Remedy]:
    if one.announced is None:  # no length: the number that it waits for is the user's own
        return [
            Remedy("Remove val_check_interval: without a length, Lightning validates at the end of every epoch."),
            Remedy(
                "Count batches across epochs:",
                code=[f"Trainer(val_check_interval={_after(one)}, check_val_every_n_epoch=None)"],
            ),
        ]
    counts = Remedy(_counts(loader))
    if one.name != LIGHTNING:
        return [counts, Remedy("Validate at the end of every epoch:", code=[_every_epoch(one.version)])]
    return [
        counts,
        Remedy("Remove that __len__: Lightning then looks one batch ahead and validates at the real end."),
        Remedy("End the epoch at a batch that comes:", code=[f"Trainer(limit_train_batches={one.delivered})"]),
    ]


def _every_epoch(version: str) -> str:
    """As this version of transformers calls it; both names, where the version is not known."""
    known = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    if len(known) == 2 and known < RENAMED:
        return 'TrainingArguments(evaluation_strategy="epoch")'
    older = "" if known else "  # evaluation_strategy before transformers 4.41"
    return f'TrainingArguments(eval_strategy="epoch"){older}'


def _counts(loader: Loader | None) -> str:
    """Which length is wrong: that of a stream, or of the sampler that makes the batches."""
    if loader is None:
        return "Make its __len__ count what __iter__ yields."
    if not loader.iterable:
        owner = (loader.batch_sampler or loader.sampler or "Sampler").rpartition(".")[2]
        place = f" ({short(loader.sampler_at)})" if is_users(loader.sampler_at) else ""
        return f"Make {owner}.__len__ count the batches that its __iter__ yields{place}."
    dataset = loader.dataset.rpartition(".")[2] or "Dataset"
    each = " in each worker" if loader.num_workers > 1 else ""
    dropped = f", without what drop_last drops{each}" if loader.drop_last else ""
    return f"Make {dataset}.__len__ count what __iter__ yields{dropped}."
