"""Persistent workers keep the first epoch's number: what the main process sets never reaches them.

## It means
Each worker gets a copy of the dataset when it starts. With `persistent_workers=True` that happens once, so
`dataset.set_epoch(n)` or `dataset.epoch = n` later on changes only the main process's dataset. Shuffling, augmentation
or a curriculum that depends on it is that of the first epoch forever, and nothing looks wrong.

## Fix
Keep the number in shared memory, where all copies see it:

```python
class Excerpts(Dataset):  # before
    def __init__(self):
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch  # the workers' copies keep 0
```

```python
class Excerpts(Dataset):  # after
    def __init__(self):
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch):
        self.epoch.fill_(epoch)  # and int(self.epoch) where it is read
```

Call `set_epoch` before the epoch's iterator is made. Or use `persistent_workers=False`: workers then start again for
each epoch, with the dataset as it is.

## Check it yourself

```python
def worker_epoch(dataset):  # run inside the worker, in __getitem__ or __iter__
    info = torch.utils.data.get_worker_info()
    print(f"worker {info.id}: epoch {int(dataset.epoch)}")
```

## Not this, if
- the sampler is never told the epoch: [sampler-no-set-epoch](sampler-no-set-epoch.md)
- the random numbers repeat, not the epoch: [rng-duplicated](rng-duplicated.md)
- the number counts something else than epochs, and is meant to stay

## How sure
Judged from whole numbers with `epoch` in their name among the dataset's attributes: what the main process's dataset has
at the beginning of each epoch, and what the copies in the workers have. Certain that the workers have the old number.
That the dataset uses it in the workers is taken from its name only: the rule looks at nothing but numbers called epoch
which the main process has changed and the workers have not. Workers that count for themselves are left alone.

## Seen in
- https://github.com/huggingface/datasets/issues/6673: `set_epoch` is ignored with persistent_workers=True
- https://github.com/huggingface/datasets/pull/6710: the fix, an epoch in shared memory
- https://github.com/starVLA/starVLA/issues/470: about 27 % of the frames were never sampled
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import crews, each_once, names, states
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, State
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import many, short
from ..rule import rule


@rule(explains=Symptom.WRONG, certainty=Certainty.LIKELY, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in case.training_loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    if not loader.persistent_workers or not loader.states:
        return None
    for crew in crews(case, main, loader):
        for name in _epoch_numbers(loader.states):
            stale = [worker for worker in crew if _is_stale(name, loader.states, states(worker))]
            if stale and len(stale) == len([worker for worker in crew if states(worker)]):
                return _finding(case, main, loader, name, stale)
    return None


def _epoch_numbers(known: list[State]) -> list[str]:
    """Attributes that are called epoch and were changed in the main process."""
    every = {name for one in known for name in one.numbers if "epoch" in name.rpartition(".")[2].lower()}
    return sorted(name for name in every if len({one.numbers.get(name) for one in known}) > 1)


def _is_stale(name: str, mains: list[State], own: list[State]) -> bool:
    """The copy has kept what it was started with, while the main process's dataset went on."""
    pairs = [(one.numbers.get(name), _in_main(name, mains, one.at)) for one in own]
    if len(pairs) < 2 or None in pairs[0]:
        return False
    kept = {worker for worker, _ in pairs}
    return len(kept) == 1 and pairs[0][0] == pairs[0][1] and pairs[-1][0] != pairs[-1][1]


def _in_main(name: str, mains: list[State], at: float) -> int | None:
    """What the main process's dataset had at that time. It is told only where it has changed."""
    before = [one for one in mains if one.at <= at]
    return before[-1].numbers.get(name) if before else None


def _finding(case: Case, main: Process, loader: Loader, name: str, stale: list[Process]) -> Finding:
    own = states(stale[0])
    kept = own[0].numbers[name]
    return case.finding(
        main,
        cause=f"Persistent workers still use {name}={kept}: the main process set "
        f"{loader.states[-1].numbers.get(name)}, which never reaches their copies of the dataset.",
        seen=list(_seen(loader, name, stale)),
        remedy=_remedy(loader, name),
        alternatives=[
            Remedy(f"Set {settings(loader, persistent_workers=False)}: workers then start with the new number")
        ],
        onset_s=next((one.at for one in own if one.numbers[name] != _in_main(name, loader.states, one.at)), None),
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _seen(loader: Loader, name: str, stale: list[Process]) -> Iterator[str]:
    own = states(stale[0])
    mains = [_in_main(name, loader.states, one.at) for one in own]
    yield f"{name} in the main process at the beginning of epochs 1 to {len(own)}: {_listed(mains)}"
    whose = names(stale) if len(stale) > 1 else "its only worker"
    yield f"{name} in {whose}: {_listed([state.numbers[name] for state in own])}"
    wrong = sum(one.numbers[name] != value for one, value in zip(own, mains, strict=True))
    yield f"{wrong} of these {many(len(own), 'epoch')} ran with the old number"
    yield f"loader: {loader.name}"


def _listed(values: list[int | None]) -> str:
    return ", ".join("?" if one is None else str(one) for one in values)


def _remedy(loader: Loader, name: str) -> Remedy:
    last = name.rpartition(".")[2]
    use = f"read it{f' at {short(loader.reads_at)}' if is_users(loader.reads_at) else ''} with int(self.{last})"
    return Remedy(
        f"Keep the number in shared memory, where all copies see it, and {use}",
        code=[
            f"self.{last} = torch.zeros((), dtype=torch.int64).share_memory_()  # in __init__",
            f"self.{last}.fill_(epoch)  # before each epoch",
        ],
    )
