"""accelerate joins the batches of all ranks on rank 0, and their shapes differ.

## It means

For a stream (an IterableDataset), and with `dispatch_batches=True`, accelerate lets rank 0 fetch one batch for every
rank, concatenates them along the first dimension, broadcasts the result, and each rank keeps its slice. Batches padded
to their own longest sample, or images of different sizes, cannot be concatenated. Only rank 0 has the exception that
says so; the other ranks wait in the broadcast or fail with a lost connection. One process joins nothing, so the same
script works there.

## Fix

Pad every batch to one fixed length:

```python
# before: padded to the longest sample of this batch
tokenizer.pad(samples, padding="longest", return_tensors="pt")

# after
tokenizer.pad(samples, padding="max_length", max_length=512, return_tensors="pt")
```

Or let every rank make its own batches, of any shape. For a stream every rank then reads the whole stream and keeps its
part of the samples, except for Hugging Face streams with at least as many shards as ranks, which accelerate shards:

```python
Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=False))
TrainingArguments(accelerator_config={"dispatch_batches": False})  # transformers
```

Or let rank 0 make one large batch and cut it. `batch_size` is then the total over all ranks:

```python
Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))
```

`DataLoaderConfiguration` needs accelerate 0.28 or newer; before that the arguments go to `Accelerator` itself.

## Check it yourself

```python
print(type(accelerator.prepare(loader)).__name__)  # DataLoaderDispatcher: rank 0 joins batches
print({tuple(batch["input_ids"].shape) for batch in loader})  # the loader before prepare(), in one process
```

## Not this, if

- the samples of one batch differ, and `default_collate` raises: [collate-unequal-shapes](collate-unequal-shapes.md)
- your own `gather` or `all_reduce` gets different sizes: [collective-shape-mismatch](collective-shape-mismatch.md)
- nothing crashes, but rank 0 cannot load fast enough: [accelerate-rank0-dispatcher](accelerate-rank0-dispatcher.md)

## How sure

Certain: the exception was raised where accelerate's DataLoaderDispatcher joins batches, by torch's refusal to
concatenate tensors of different sizes, which are read from its message. What `prepare` made of the loader says whether
rank 0 loads for all ranks, and why.

## Seen in

- https://github.com/huggingface/transformers/issues/26548: Trainer with an IterableDataset and varying lengths
- https://github.com/huggingface/accelerate/issues/2023: the same in accelerate; dispatch_batches=False helps
- https://github.com/huggingface/accelerate/pull/2325: where the error message comes from
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

TEXTS = (
    "You can't use batches of different size with `dispatch_batches=True` or when using an `IterableDataset`.",
    "RuntimeError: Sizes of tensors must match except in dimension 0.",
)
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
        remedies = _remedies(process, prepared, loader)
        yield case.finding(
            process,
            cause=_cause(process, failure),
            seen=list(_seen(case, process, prepared, loader, failure)),
            remedy=remedies[0],
            alternatives=remedies[1:],
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


def _cause(process: Process, failure: Failure) -> str:
    sizes = _sizes(failure)
    return (
        f"accelerate concatenates the batches of all ranks on rank {process.rank or 0}, but their shapes "
        f"differ{f' ({sizes})' if sizes else ''}."
    )


def _sizes(failure: Failure) -> str:
    for _, message in failure.causes:
        found = SIZES.search(message)
        if found is not None:
            return f"{found[1]} vs {found[2]}"
        found = DIMENSIONS.search(message)
        if found is not None:
            return f"{found[1]} vs {found[2]} dimensions"
    return ""


def _seen(
    case: Case, process: Process, prepared: Prepared | None, loader: Loader | None, failure: Failure
) -> Iterator[str]:
    cause = next((message for _, message in failure.causes), failure.message)
    yield f"{who(process)}: {cause.strip().splitlines()[0]}"
    if prepared is not None:
        why = "the dataset is a stream" if prepared.before.iterable else "dispatch_batches=True"
        yield f"prepared at {short(prepared.where)}: DataLoaderDispatcher, because {why}"
    if loader is not None:
        first = f", the first one {loader.first_shapes}" if loader.first_shapes else ""
        yield f"{many(loader.batches, 'batch')} of {loader.name} before that{first}"
    others = [one for one in case.ranks if one is not process and one.failure is not None]
    if others:
        yield f"{many(len(others), 'other rank')} failed only because rank {process.rank or 0} had crashed"


def _remedies(process: Process, prepared: Prepared | None, loader: Loader | None) -> list[Remedy]:
    """Padding first: it keeps rank 0 as the only reader, and no other setting has to change."""
    count = _ranks(process, prepared)
    size = (loader.batch_size if loader is not None else None) or (prepared.before.batch_size if prepared else None)
    if size is None and loader is not None:  # accelerate can neither split nor cut what the dataset has put together
        own = Remedy(
            "Keep the loader out of prepare(), let every rank read its own part, and move batches to the device "
            "yourself (batch_size=None cannot be sharded or split).",
            code=["batch = accelerate.utils.send_to_device(batch, accelerator.device)"],
        )
        return [Remedy("Pad every batch to one fixed length where the dataset makes it."), own]
    iterable = loader is None or loader.iterable
    price = "; each reads the whole stream and keeps its part" if iterable else ""
    alone = _setting(process, "dispatch_batches=False", '"dispatch_batches": False')
    split = _setting(process, "split_batches=True", '"split_batches": True')
    total = f"; batch_size is then the total: {size * count} for {size} per rank" if size else ""
    return [
        Remedy("Pad every batch to one fixed length in collate_fn."),
        Remedy(f"Let every rank make its own batches, of any shape{price}.", code=[alone]),
        Remedy(f"Let rank 0 make one batch and cut it into {count}{total}.", code=[split]),
    ]


def _setting(process: Process, plain: str, in_arguments: str) -> str:
    return in_words_of(
        process,
        f"Accelerator(dataloader_config=DataLoaderConfiguration({plain}))",
        transformers=f"TrainingArguments(accelerator_config={{{in_arguments}}})",
    )
