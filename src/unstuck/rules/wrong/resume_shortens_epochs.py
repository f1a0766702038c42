"""After a resume every later epoch is as short as the rest of the interrupted one.

## It means
The first epoch after a resume has only what is left of the interrupted one. That is right. But where the position that
was loaded stays in the dataset or the sampler, and every `__iter__` starts from it, all later epochs begin there too:
the samples before it are never trained on again. With StatefulDataLoader that happens to a dataset which sets its
position in `load_state_dict` and never resets it, in the main process or in persistent workers.

## Fix
Use the loaded position once:

```python
def __iter__(self):  # before: every epoch starts at the loaded position
    for index in range(self.start, len(self.samples)):
        yield self.samples[index]
```

```python
def __iter__(self):  # after
    start, self.start = self.start, 0
    for index in range(start, len(self.samples)):
        yield self.samples[index]
```

With workers, `persistent_workers=False` does so too: new workers get a fresh copy. For Hugging Face datasets and
torchdata, first update both libraries.

## Check it yourself

```python
loader.load_state_dict(state)
for epoch in range(3):
    print(epoch, sum(1 for batch in loader))  # only the first number may be small
```

## Not this, if
- only the first epoch after the resume is short: that is right
- the loop is passing over batches that were trained before: that ends by itself
- len(loader) was never true: [iterable-length-lies](iterable-length-lies.md)

## How sure
Judged from when a saved state was loaded into a loader, how many batches the epoch after it yielded and how many the
epochs after that; the length of the loader, or what an epoch yielded before; and the numbers among the dataset's
attributes. Certain of the numbers. It speaks when at least one whole epoch after the first is no longer than that rest,
and the loader's length, or an earlier epoch, is more than that; of an iterable dataset only when one of its numbers is,
at the beginning of later epochs, still as many samples as are missing. A position that is kept in another way is not
seen.

## Seen in
- https://github.com/huggingface/datasets/issues/7447: epochs shortened after resuming, with persistent workers
- https://github.com/meta-pytorch/data/issues/1437: a loaded state is changed in the loader, and an epoch may be dropped
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import crews, each_once, spare, states
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Pass
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, percent, short
from ..rule import rule


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("iterable-length-lies",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in case.training_loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    rest, later = _since_resume(loader)
    whole = _whole(loader)
    if rest is None or not later or whole is None:
        return None
    longest = max(one.batches for one in later)
    if longest > rest.batches + spare(loader) or longest >= whole - spare(loader):
        return None
    missed = whole - longest
    position, value = _position(case, main, loader, missed)
    if loader.iterable and not position:
        return None  # it may be that epochs are always that short: then the length is not true
    return case.finding(
        main,
        cause=f"Since the resume every epoch has only {longest:,} of {many(whole, 'batch')}: "
        "the rest is never trained on.",
        seen=[
            f"{many(missed, 'batch')} of every epoch are missing, {percent(missed / whole)} of the data",
            *([f"the dataset still had {position}={value} when the newest epoch began"] if position else []),
            *_seen(loader, rest, later, whole),
        ],
        remedy=_remedy(loader, position),
        alternatives=_others(loader),
        onset_s=later[0].at,
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _since_resume(loader: Loader) -> tuple[Pass | None, list[Pass]]:
    """The rest of the interrupted epoch, and the epochs after it. Only if that rest came to its own end."""
    if not loader.resumed:
        return None, []
    after = [one for one in loader.ended if one.at >= loader.resumed[-1]]
    return (after[0], after[1:]) if after else (None, [])


def _whole(loader: Loader) -> int | None:
    """Batches of a whole epoch: as len() says, or as it was before the resume."""
    before = [one.batches for one in loader.ended if one.at < loader.resumed[-1]] if loader.resumed else []
    known = [*before, *([loader.length] if loader.length else [])]
    return max(known, default=None)


def _seen(loader: Loader, rest: Pass, later: list[Pass], whole: int) -> Iterator[str]:
    yield f"a saved state was loaded after {duration(loader.resumed[-1])}; the rest of that epoch had {rest.batches:,}"
    ends = ", ".join(f"{epoch.batches:,}" for epoch in later[:6])
    yield f"batches of the {many(len(later), 'epoch')} after it: {ends}{' …' if len(later) > 6 else ''}"
    says = "as len(loader) says" if whole == loader.length else "as before the resume"
    yield f"a whole epoch has {many(whole, 'batch')}, {says}"
    yield f"loader: {loader.name}"


def _position(case: Case, main: Process, loader: Loader, missed: int) -> tuple[str, int]:
    """The number of the dataset that says, at the beginning of the newest epoch, where the interrupted one was."""
    workers = [one for crew in crews(case, main, loader)[-1:] for one in crew[:1]]
    known = states(workers[0]) if workers else loader.states
    a_batch = loader.batch_size or 1
    passed = missed * a_batch / max(loader.num_workers, 1)
    numbers = known[-1].numbers if known else {}
    return next((one for one in numbers.items() if one[1] > 0 and abs(one[1] - passed) <= a_batch), ("", 0))


def _remedy(loader: Loader, position: str) -> Remedy:
    place = f" at {short(loader.reads_at)}" if is_users(loader.reads_at) else ""
    what = "__iter__" if loader.iterable else "__iter__ of the sampler"
    name = f"self.{position or 'position'}"
    named = "" if position else ", whatever its name"
    return Remedy(
        f"Use the loaded position once in {what}{place}{named}: set it back to zero",
        code=[f"start, {name} = {name}, 0"],
    )


def _others(loader: Loader) -> list[Remedy]:
    if not (loader.num_workers and loader.persistent_workers):
        return []
    fresh = settings(loader, persistent_workers=False)
    return [Remedy(f"Set {fresh}: new workers start each epoch with a fresh copy of the dataset")]
