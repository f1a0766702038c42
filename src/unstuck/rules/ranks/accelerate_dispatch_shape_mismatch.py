"""Rank 0 is to join the batches of all ranks before it sends them out, and their shapes differ.

## What it looks at
The exception of rank 0: raised where accelerate's DataLoaderDispatcher joins batches, by torch's refusal to concatenate
tensors of different sizes; which sizes these were. And what `prepare` made of the loader: whether rank 0 loads for all,
and why.

## Why it happens
For a stream (an IterableDataset), and with `dispatch_batches=True`, accelerate lets rank 0 fetch one batch for every
rank, concatenates them along their first dimension, broadcasts the result and lets each rank keep its slice. Batches
that are padded to their own longest sample, or pictures of different sizes, cannot be concatenated. Only rank 0 has the
exception that says so; the others wait in the broadcast, or die of a lost connection. One process joins nothing, and
the same script runs there.

## What to do
Let every rank collate its own batches, with `dispatch_batches=False`; let rank 0 take one large batch and cut it, with
`split_batches=True`; or pad every batch to the same length.

## How sure it is
Certain: accelerate's own code raised it while it joined batches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.shares import is_dispatched
from ...evidence.distributed import Prepared
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Failure, Process
from ...wording.settings import in_words_of
from ...wording.text import many, short, who
from ..rule import rule

JOINS = "accelerate/data_loader.py", "_fetch_batches"  # accelerate's file and function, since 0.5
DIFFERENT = ("Sizes of tensors must match", "batches of different size")  # torch's words, and accelerate's
SIZES = re.compile(r"except in dimension 0\. Expected size (\d+) but got size (\d+)")
DIMENSIONS = re.compile(r"Tensors must have same number of dimensions: got (\d+) and (\d+)")


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    outranks=("accelerate-rank0-dispatcher",),
)
def check(case: Case) -> Iterator[Finding]:
    for process in case.mains:
        failure = process.failure
        if failure is None or not _joining(failure):
            continue
        loader = process.newest_loader
        prepared = next((one for one in reversed(process.prepared) if is_dispatched(one)), None)
        yield case.finding(
            process,
            cause=_cause(process, prepared, failure),
            seen=list(_seen(case, process, prepared, loader, failure)),
            remedy=_remedy(process, prepared, loader),
            onset_s=failure.at,
            where=user_line(failure),
            subject=Subject("loader", loader.name) if loader is not None else None,
        )
        return


def _joining(failure: Failure) -> bool:
    file, function = JOINS
    inside = any(one.file.endswith(file) and one.function == function for one in failure.frames)
    said = [failure.message, *(message for _, message in failure.causes)]
    spoken = any(word in text for word in DIFFERENT for text in said) or any(map(DIMENSIONS.search, said))
    return inside and failure.type == "RuntimeError" and spoken


def _ranks(process: Process, prepared: Prepared | None) -> int:
    return prepared.processes if prepared is not None else process.world or 1


def _cause(process: Process, prepared: Prepared | None, failure: Failure) -> str:
    count = _ranks(process, prepared)
    sizes = _sizes(failure)
    return (
        f"Rank {process.rank or 0} loads for all {count} ranks and has to join their batches into one, but the shapes "
        f"differ{f': {sizes}' if sizes else ''}."
    )


def _sizes(failure: Failure) -> str:
    for _, message in failure.causes:
        found = SIZES.search(message)
        if found is not None:
            return f"one is {found[1]} long where another is {found[2]}"
        found = DIMENSIONS.search(message)
        if found is not None:
            return f"one has {found[1]} dimensions, another {found[2]}"
    return ""


def _seen(
    case: Case, process: Process, prepared: Prepared | None, loader: Loader | None, failure: Failure
) -> Iterator[str]:
    cause = next((message for _, message in failure.causes), failure.message)
    yield f"{who(process)}, where accelerate joins batches: {cause.strip().splitlines()[0]}"
    if prepared is not None:
        why = "its dataset is a stream" if prepared.before.iterable else "dispatch_batches=True"
        yield f"prepared at {short(prepared.where)}: DataLoaderDispatcher, because {why}"
    if loader is not None:
        first = f", the first of them {loader.first_shapes}" if loader.first_shapes else ""
        yield f"{many(loader.batches, 'batch')} had come from {loader.name}{first}"
    others = [one for one in case.ranks if one is not process and one.failure is not None]
    if others:
        yield f"{many(len(others), 'other rank')} failed only because rank {process.rank or 0} was gone"


def _remedy(process: Process, prepared: Prepared | None, loader: Loader | None) -> Remedy:
    count = _ranks(process, prepared)
    size = (loader.batch_size if loader is not None else None) or (prepared.before.batch_size if prepared else None)
    if size is None and loader is not None:  # accelerate refuses to cut or to share what the dataset has put together
        return Remedy(
            "Pad every batch to one fixed length where it is made. Or do not give the loader to prepare(), which can "
            "neither share nor cut batches that the dataset makes itself (batch_size=None): let every rank read its "
            "own part (webdataset: nodesplitter=wds.split_by_node) and move its batches to accelerator.device."
        )
    alone = _setting(process, "dispatch_batches=False", '"dispatch_batches": False')
    split = _setting(process, "split_batches=True", '"split_batches": True')
    whole = f", with batch_size={size * count} for the {size} that each rank gets now" if size else ""
    iterable = loader is None or loader.iterable
    price = " It reads the whole stream on every rank and keeps its part of the samples." if iterable else ""
    return Remedy(
        f"Use {alone}: every rank then makes its own batches, of any shape.{price} Or use {split}{whole}: rank 0 makes "
        f"one batch and cuts it into {count}. Or let collate_fn pad every batch to one fixed length."
    )


def _setting(process: Process, plain: str, in_arguments: str) -> str:
    return in_words_of(
        process,
        f"Accelerator(dataloader_config=DataLoaderConfiguration({plain}))",
        transformers=f"TrainingArguments(accelerator_config={{{in_arguments}}})",
    )
