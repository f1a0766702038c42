"""An epoch brings fewer batches than were announced, so the trainer never comes to the batch at which it validates.

## What it looks at
How many batches the framework was told that an epoch has, after which of them it validates, how many really came, and
how many validations there were. A sanity check before the training does not count.

## Why it happens
Lightning validates after a batch with a certain number: by default the last, which is `len(train_dataloader)`. Where
fewer come, the epoch ends without it, and nothing is said: no validation, no checkpoint by its metric, no early stop.
transformers' Trainer with `eval_strategy="steps"` does the same when it never comes to that step. A `__len__` that
rounds up, counts what is skipped later, or forgets that drop_last drops the rest of each worker is all it takes. Of a
loader without a length, it is a `val_check_interval` that no epoch comes to.

## What to do
Let `__len__` count what comes, or remove it: Lightning then looks one batch ahead and sees the end by itself. To have a
validation at once, `limit_train_batches` or `val_check_interval` (`eval_steps`) with a number that is reached.

## How sure it is
Certain: it counts epochs that came to the end of their data, before the announced number, and had no validation. Epochs
that were stopped (`max_steps`, early stopping), and those at whose end none was due, are left alone.
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
    after = f"{_after(one):,}"
    told = f"was told that {name} has {one.announced or 0:,} batches and validates after number {after}, but only"
    if one.announced is None:
        told = f"validates after batch {after} of an epoch (val_check_interval), but an epoch has only"
    return case.finding(
        main,
        cause=f"{_how_often(one)}: {one.name} {told} {one.delivered:,}{' come' if one.announced is not None else ''}.",
        seen=list(_seen(main, one, loader)),
        remedy=_remedy(one, loader),
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
        return f"Validation never runs ({many(one.epochs, 'epoch')} so far)"
    return f"Validation was left out in {one.missed:,} of {many(one.epochs, 'epoch')}"


def _seen(main: Process, one: Framework, loader: Loader | None) -> Iterator[str]:
    yield f"{many(one.epochs, 'epoch')} ended, {one.short:,} of them before the announced number of batches"
    if one.validations:
        yield f"{many(one.validations, 'validation')} were made, beside a sanity check"
    if loader is not None:
        size = f", batch_size={loader.batch_size}" if loader.batch_size else ""
        dropped = ", drop_last=True" if loader.drop_last else ""
        length = f"len(dataset) is {loader.dataset_length:,}, " if loader.dataset_length is not None else ""
        yield f"{loader.name}: {length}{many(loader.num_workers, 'worker')}{size}{dropped}"
    if not main.saved:
        yield "no checkpoint was saved"


def _remedy(one: Framework, loader: Loader | None) -> Remedy:
    counts = _counts(loader)
    if one.announced is None:  # nothing was announced: the number that it waits for is the user's own
        return Remedy(
            "Leave val_check_interval out: where the length is not known, Lightning validates at the end of every "
            f"epoch. Or let it count over epochs: Trainer(val_check_interval={_after(one)}, "
            "check_val_every_n_epoch=None)."
        )
    if one.name != LIGHTNING:
        return Remedy(
            f"{counts}. To have it at once: TrainingArguments(eval_strategy='epoch'), or eval_steps that come."
        )
    return Remedy(
        f"{counts}; or remove it: Lightning then looks one batch ahead and validates at the real end. To have it at "
        f"once: Trainer(limit_train_batches={one.delivered})."
    )


def _counts(loader: Loader | None) -> str:
    """Whose length is to be mended: of a stream the dataset's, else that of who puts the batches together."""
    if loader is None:
        return "Let its __len__ count what __iter__ yields"
    if not loader.iterable:
        owner = (loader.batch_sampler or loader.sampler or "the sampler").rpartition(".")[2]
        place = f" ({short(loader.sampler_at)})" if is_users(loader.sampler_at) else ""
        return f"Let {owner}.__len__ count the batches that its __iter__ yields{place}"
    place = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    dataset = loader.dataset.rpartition(".")[2] or "the dataset"
    each = " in each worker" if loader.num_workers > 1 else ""
    dropped = f", without what drop_last drops{each}" if loader.drop_last else ""
    return f"Let {dataset}.__len__ count what __iter__ yields{place}{dropped}"
