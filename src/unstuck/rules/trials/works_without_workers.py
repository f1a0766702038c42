"""The loader works in the main process, and crashes or hangs as soon as workers load for it.

## It means

The data and the code that loads it are fine, or the main process would fail, too. What is new with workers: the dataset
is forked or pickled into another process, with its locks, open files and connections, but without its threads; batches
go through /dev/shm; every worker takes memory and file descriptors of its own.

## Fix

What the finding says is the reason. Most often, something in the dataset does not survive being sent to the worker.
Open it there, on first use:

```python
class Volumes(Dataset):  # before: one handle, shared by all forked workers
    def __init__(self, path):
        self.file = h5py.File(path)

    def __getitem__(self, index):
        return self.file["volumes"][index]
```
```python
class Volumes(Dataset):  # after: each worker opens its own
    def __init__(self, path):
        self.path, self.file = path, None

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path)
        return self.file["volumes"][index]
```

If spawned workers pass where forked ones hang, something does not survive the fork: `DataLoader(dataset, num_workers=4,
multiprocessing_context="spawn")`. If one worker passes where more fail, they share something: a file, a port, a lock,
memory. Until it is fixed, `num_workers=0` works, slowly.

## Check it yourself

Try the same loader with more and more workers, each in a fresh Python:

```python
import sys
from torch.utils.data import DataLoader
from train import make_dataset

if __name__ == "__main__":
    for number, _ in zip(range(20), DataLoader(make_dataset(), num_workers=int(sys.argv[1]))):
        print(number)
```
```sh
for workers in 0 1 2 4; do echo "$workers workers"; timeout 60 python try_workers.py $workers || echo failed; done
```

## Not this, if

- it fails without workers as well: [fails-on-sample](fails-on-sample.md)
- the reason is known: [unpicklable-dataset](unpicklable-dataset.md), [missing-main-guard](missing-main-guard.md),
  [cuda-in-forked-worker](cuda-in-forked-worker.md), [fork-inherited-lock](fork-inherited-lock.md)
- it is killed for memory: [worker-oom-killed](worker-oom-killed.md),
  [memory-budget-exceeded](memory-budget-exceeded.md)
- /dev/shm is too small for the batches: [shm-too-small](shm-too-small.md), [shm-exhausted](shm-exhausted.md)

## How sure

It is judged from the rungs that `unstuck doctor` has tried: with no workers the loader passed, with one or with its own
number it failed. Also from what the rules found in the recording of the failed rung, how a single worker did, and how
spawned workers did. It is certain that it works without workers and not with them: both were tried. The reason is as
sure as the rule that found it; where none did, it says how the rung ended and nothing more.

## Seen in

- https://github.com/pytorch/pytorch/issues/1355: a long thread about loaders that hang with workers and work without;
  small shared memory, OpenCV and pinning were some of the reasons
- https://github.com/pytorch/pytorch/issues/15808: freezes with num_workers > 0, also on CPU-only machines
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import FAIL, IMPOSSIBLE, PASS, Rung, Trial
from ...report import root_of
from ...wording.printable import quoted
from ...wording.text import many, said
from ..rule import Level, rule
from ._rungs import ended_words, loader_of, rung_named, symptom_of

TEXTS = ("exited unexpectedly", "Rerunning with num_workers=0 may give better error trace")

TRIED = ("one-worker", "workers")


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("trial",),
    level=Level.GENERAL,
    outranks=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    trial = case.trial
    alone = rung_named(trial, "no-workers") if trial is not None else None
    failed = next((one for one in trial.rungs if one.name in TRIED and one.status == FAIL), None) if trial else None
    if trial is None or alone is None or alone.status != PASS or failed is None:
        return
    root = root_of(failed.findings)
    if _foretold(trial, failed, root):
        return
    workers = failed.workers or (1 if failed.name == "one-worker" else loader_of(trial).num_workers)
    fails = f"works without workers and {_verb(failed)} with {workers}"
    saw = root.saw if root is not None else said(failed.failure) if failed.failure is not None else ""
    remedy, *alternatives = _taken(root, trial) if root is not None else _options(trial, failed)
    found = case.finding(
        cause=root.cause if root is not None else f"The loader {fails}: {_reason(failed)}.",
        seen=[
            *([f"the loader {fails}"] if root is not None else [failed.reason]),
            *_seen(trial, alone, failed),
            *(line for line in (root.seen if root is not None else ()) if line != saw),
        ],
        saw=saw,
        remedy=remedy,
        alternatives=alternatives,
        where=loader_of(trial).created,
        subject=Subject("loader", loader_of(trial).dataset or "the loader"),
        symptom=symptom_of(failed),
    )
    yield found if root is None else _taken_over(found, root)


def _foretold(trial: Trial, failed: Rung, root: Finding | None) -> bool:
    """It ran out of what the budget says is too little: the rules on that give the reason."""
    budget, rule_of = trial.budget, root.rule if root is not None else ""
    if budget is None:
        return False
    if budget.shm_grade == IMPOSSIBLE and rule_of == "shm-exhausted":
        return True
    return budget.grade == IMPOSSIBLE and (rule_of.endswith("oom-killed") or failed.ended == "memory")


def _taken_over(found: Finding, root: Finding) -> Finding:
    return msgspec.structs.replace(
        found,
        node=root.node,
        rank=root.rank,
        worker=root.worker,
        pid=root.pid,
        onset_s=root.onset_s,
        where=root.where or found.where,
        subject=root.subject or found.subject,
    )


def _reason(failed: Rung) -> str:
    """In a few words: all of it is in the evidence."""
    if failed.failure is not None:
        return f"{failed.failure.type} was raised"
    return failed.reason.partition("; ")[0].rstrip(".")


def _verb(failed: Rung) -> str:
    if failed.ended == "memory":
        return "takes too much memory"
    return "crashes" if symptom_of(failed) == Symptom.CRASHED.value else "hangs"


def _seen(trial: Trial, alone: Rung, failed: Rung) -> Iterator[str]:
    yield f"0 workers: passed with {many(alone.batches, 'batch')}; {failed.title}: {ended_words(failed)}"
    one, spawned = rung_named(trial, "one-worker"), rung_named(trial, "spawn")
    if failed.name == "workers" and one is not None and one.status == PASS:
        yield "1 worker passes: only several at once fail"
    if spawned is not None and spawned.status == PASS:
        yield "spawned workers pass: it fails because of the fork"
    if spawned is not None and spawned.status == FAIL:
        yield f"spawned workers fail, too: {spawned.reason}"


def _taken(root: Finding, trial: Trial) -> list[Remedy]:
    """What the rule advises. What was tried here and failed comes last."""
    spawned = rung_named(trial, "spawn")
    options = [root.remedy, *root.alternatives]
    if spawned is None or spawned.status != FAIL:
        return options
    return sorted(options, key=_spawns)


def _spawns(remedy: Remedy) -> bool:
    return "spawn" in " ".join([remedy.text, *remedy.code, *remedy.commands])


def _options(trial: Trial, failed: Rung) -> Iterator[Remedy]:
    one, spawned = rung_named(trial, "one-worker"), rung_named(trial, "spawn")
    if spawned is not None and spawned.status == PASS:
        yield Remedy("Spawn the workers: that works here", code=['multiprocessing_context="spawn"'])
        yield Remedy("Open files, connections and thread pools in the worker, on first use: they do not survive a fork")
    elif failed.name == "workers" and one is not None and one.status == PASS:
        yield Remedy("Find what the workers share: a file, a port, a lock, memory")
        yield Remedy("Until then, use one worker: that works", code=["num_workers=1"])
    else:
        look = [f"unstuck why {quoted(failed.folder)}"] if failed.folder else []
        yield Remedy("Read how the failed rung ended: it is recorded", look)
        yield Remedy("Until it is fixed, load without workers: that works", code=["num_workers=0"])
