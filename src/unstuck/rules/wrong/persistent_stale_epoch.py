"""Persistent workers still have the first epoch's number: what the main process set since never reached them.

## What it looks at
Whole numbers with `epoch` in their name among the dataset's attributes: what the main process's dataset has at the
beginning of each pass, and what the copies in the workers have.

## Why it happens
Each worker gets a copy of the dataset when it is started. With `persistent_workers=True` that happens once, so
`dataset.set_epoch(n)` or `dataset.epoch = n` later on changes only the main process's dataset. Shuffling,
augmentation or a curriculum that depends on it is that of the first epoch for ever, and nothing looks wrong.

## What to do
Keep the number in shared memory (a tensor after `share_memory_()`, or `multiprocessing.Value`), so that all copies see
it; or `persistent_workers=False`, which starts the workers anew with the dataset as it is.

## How sure it is
Sure that the workers have the old number. That the dataset uses it in the workers is taken from its name only: the
rule looks at nothing but numbers called epoch which the main process has changed and the workers have not. Workers
that count for themselves are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import crews, each_once, names, states
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, State
from ...evidence.process import Process
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
    pairs = [(one.numbers.get(name), _meanwhile(name, mains, one.at)) for one in own]
    if len(pairs) < 2 or None in pairs[0]:
        return False
    kept = {worker for worker, _ in pairs}
    return len(kept) == 1 and pairs[0][0] == pairs[0][1] and pairs[-1][0] != pairs[-1][1]


def _meanwhile(name: str, mains: list[State], at: float) -> int | None:
    """What the main process's dataset had at that time. It is told only where it has changed."""
    before = [one for one in mains if one.at <= at]
    return before[-1].numbers.get(name) if before else None


def _finding(case: Case, main: Process, loader: Loader, name: str, stale: list[Process]) -> Finding:
    own = states(stale[0])
    kept = own[0].numbers[name]
    return case.finding(
        main,
        cause=f"The workers of {loader.name} still have {name}={kept} in pass {loader.passes}: they are "
        f"persistent and keep the dataset as it was when they were started, while the main process set {name} to "
        f"{loader.states[-1].numbers.get(name)}.",
        seen=list(_seen(loader, name, stale)),
        remedy=_remedy(loader, name),
        onset_s=next((one.at for one in own if one.numbers[name] != _meanwhile(name, loader.states, one.at)), None),
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _seen(loader: Loader, name: str, stale: list[Process]) -> Iterator[str]:
    own = states(stale[0])
    mains = [_meanwhile(name, loader.states, one.at) for one in own]
    yield f"{name} in the main process at the beginning of passes 1 to {len(own)}: {_listed(mains)}"
    whose = names(stale) if len(stale) > 1 else "its only worker"
    yield f"in {whose}: {_listed([one.numbers[name] for one in own])}"
    wrong = sum(one.numbers[name] != value for one, value in zip(own, mains, strict=True))
    yield f"{many(wrong, 'pass')} of these {len(own)} ran with the old number"


def _listed(values: list[int | None]) -> str:
    return ", ".join("?" if one is None else str(one) for one in values)


def _remedy(loader: Loader, name: str) -> Remedy:
    dataset = loader.dataset.rpartition(".")[2] or "the dataset"
    last = name.rpartition(".")[2]
    use = f" where it is used ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    return Remedy(
        f"Keep the number where all copies see it: in {dataset}.__init__ `self.{last} = "
        f"torch.zeros((), dtype=torch.int64).share_memory_()`, set it with `self.{last}.fill_(epoch)` before the pass "
        f"begins, and read it with `int(self.{last})`{use}. Or pass persistent_workers=False: workers are then started "
        "anew for each epoch, with the number as it is."
    )
