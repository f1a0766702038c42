"""Epochs are empty: the loader gives no batch at all, and no error says so.

## It means
`drop_last=True` with fewer samples than batch_size leaves no batch. That happens to small datasets, to the share of one
rank or one worker, and after batch_size was raised. Or there is no sample to begin with: a pattern that matches no
file, a filter that keeps nothing, an empty sampler. A `for` loop over nothing is no error, so epochs "finish" at once.

## Fix

```python
loader = DataLoader(dataset, batch_size=64, drop_last=True)  # before: 40 samples, no batch
```

```python
loader = DataLoader(dataset, batch_size=64, drop_last=False)  # after: one batch of 40
assert len(loader) > 0, "no batch to train on"
```

Or lower batch_size to the number of samples of one rank. Where there are no samples, look at what the dataset was made
of: print the pattern and how many files it matches.

## Check it yourself

```python
print(len(loader.dataset), "samples,", loader.batch_size, "per batch, drop_last", loader.drop_last)
print(sum(1 for batch in loader), "batches")
```

## Not this, if
- each worker of an IterableDataset drops its own rest:
  [iterable-drop-last-per-worker](iterable-drop-last-per-worker.md)
- only some ranks have data: [wds-empty-rank-hang](wds-empty-rank-hang.md),
  [uneven-file-assignment](uneven-file-assignment.md)
- an empty validation set is meant: then nothing is wrong

## How sure
Judged from epochs of a loader that ended without a single batch, again each time; whether the loader drops incomplete
batches, and how many samples there were. Certain that no batch came. With `drop_last` it speaks at the first such
epoch; of a loader without samples only when nothing else was trained on either, and more than once: an empty validation
set may be meant. An exception that came right after such an epoch, before any other batch or step, is its consequence:
nothing to divide by, a name that was never set, a list with nothing in it. Then one epoch is enough.

## Seen in
- https://github.com/facebookresearch/sscd-copy-detection/issues/9: "`Dataloader` returned 0 length" with 966 samples
- https://github.com/open-mmlab/mmengine/issues/945: a dataset smaller than the batch size, with drop_last
- https://github.com/PaddlePaddle/PaddleScience/pull/355: an error instead of an empty batch
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

TEXTS = (
    "`DataLoader` returned 0 length. Please make sure this was your intention.",
    "`Dataloader` returned 0 length. Please make sure that it returns at least 1 batch",
    "Total length of `DataLoader` across ranks is zero.",
    "`DataLoader` within local rank has zero length.",
)
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
    remedy, *alternatives = _remedies(loader, samples) if dropped else _empty_remedies(loader)
    return case.finding(
        main,
        cause=f"{loader.name} yields no batch because {_why(loader, samples, dropped)}.",
        seen=[*_seen(main, loader, samples), *(_led_to(main) if raised else ())],
        saw=said(main.failure) if raised and main.failure is not None else "",
        remedy=remedy,
        alternatives=alternatives,
        onset_s=loader.ended[0].at,
        where=loader.created if is_users(loader.created) else loader.reads_at,
        subject=Subject("loader", loader.name),
        certainty=Certainty.LIKELY.value if meant else "",
    )


def _samples(case: Case, main: Process, loader: Loader) -> int | None:
    """How many there are for one epoch. None: it is not known."""
    if loader.iterable:
        return sum(one.samples for one in fetched(case, main, loader)) // max(loader.passes, 1)
    return loader.dataset_length


def _why(loader: Loader, samples: int | None, dropped: bool) -> str:
    if dropped:
        there = "its samples do" if samples is None else f"its {many(samples, 'sample')} {_do(samples)}"
        them = "it" if samples == 1 else "them"
        return f"{there} not fill a batch of {loader.batch_size} and drop_last=True drops {them}"
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
    yield f"{many(loader.passes, 'epoch')} ended without a batch"
    shape = f"batch_size={loader.batch_size}, drop_last={loader.drop_last}, num_workers={loader.num_workers}"
    yield shape if samples is None else f"{shape}, {many(samples, 'sample')}"
    if not main.optimizer_steps:
        yield "no optimizer step in the whole run"


def _led_to(main: Process) -> Iterator[str]:
    failure = main.failure
    if failure is not None:
        place = user_line(failure)
        yield f"the run crashed right after it: {failure.type}" + (f" at {short(place)}" if place is not None else "")


def _remedies(loader: Loader, samples: int | None) -> list[Remedy]:
    sampler = _last(loader.sampler)
    share = f": {sampler} gives each rank only a part of the samples" if "Distributed" in sampler else ""
    known = samples is not None and not share
    smaller = f"Set {settings(loader, batch_size=samples)} or less" if known else "Lower batch_size"
    keep = Remedy(f"Set {settings(loader, drop_last=False)}")
    loud = (
        Remedy("Stop the run when an epoch makes no step")
        if loader.iterable
        else Remedy("Stop the run when the loader is empty", code=["assert len(loader) > 0"])
    )
    return [keep, Remedy(f"{smaller}{share}"), loud]


def _empty_remedies(loader: Loader) -> list[Remedy]:
    place = f" ({short(loader.created)})" if is_users(loader.created) else ""
    dataset = _last(loader.dataset) if loader.dataset else "the dataset"
    return [
        Remedy(f"Fix what {dataset} is made of{place}: a pattern matches nothing, or a filter keeps nothing"),
        Remedy("Stop the run when the first epoch yields no batch"),
    ]
