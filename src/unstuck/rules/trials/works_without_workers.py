"""The loader works in the main process, and dies or hangs as soon as workers load for it.

## What it looks at
The rungs that `unstuck doctor` has climbed: the loader with no workers passed, with one or with its own number it
failed. Then what the rules found in the recording of the rung that failed; how a single worker did; and how workers did
that were spawned instead of forked.

## Why it happens
The data and the code that loads it are in order, or the main process would have failed, too. What is new with workers:
the dataset is forked or pickled into another process, with its locks, its open files and connections and without its
threads; batches go through /dev/shm; every worker takes memory and descriptors of its own.

## What to do
What the reason says that was found. Without one: what separates the rungs points the way. Spawned workers pass where
forked ones hang: something does not survive the fork. One worker passes where more fail: they share something.

## How sure it is
Certain that it works without workers and not with them: both were tried. The reason is as sure as the rule that found
it; where none did, it says how the rung ended and nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import FAIL, IMPOSSIBLE, PASS, Rung, Trial
from ...report import root_of
from ...wording.text import many
from ..rule import Level, rule
from ._rungs import ended_words, loader_of, rung_named, symptom_of

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
    reason = root.cause if root is not None else failed.reason
    workers = failed.workers or (1 if failed.name == "one-worker" else loader_of(trial).num_workers)
    found = case.finding(
        cause=f"It works with 0 workers and {_verb(failed)} with {workers}: {reason}",
        seen=[*_seen(trial, alone, failed), *(root.seen if root is not None else ())],
        remedy=_taken(root.remedy, trial) if root is not None else _remedy(trial, failed),
        where=loader_of(trial).created,
        subject=Subject("loader", loader_of(trial).dataset or "the loader"),
        symptom=symptom_of(failed),
    )
    yield found if root is None else _taken_over(found, root)


def _foretold(trial: Trial, failed: Rung, root: Finding | None) -> bool:
    """It ran out of what the budget says that it lacks: that is the reason, and said by the rules on it."""
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


def _verb(failed: Rung) -> str:
    if failed.ended == "memory":
        return "takes too much memory"
    return "dies" if symptom_of(failed) == Symptom.CRASHED.value else "hangs"


def _seen(trial: Trial, alone: Rung, failed: Rung) -> Iterator[str]:
    yield f"0 workers: {many(alone.batches, 'batch')}, passed; {failed.title}: {ended_words(failed)}"
    one, spawned = rung_named(trial, "one-worker"), rung_named(trial, "spawn")
    if failed.name == "workers" and one is not None and one.status == PASS:
        yield "1 worker passes: it is more than one at a time that fails"
    if spawned is not None and spawned.status in (PASS, FAIL):
        yield (
            "spawned workers pass: what fails is the fork" if spawned.status == PASS else "spawned workers fail as well"
        )


def _taken(remedy: Remedy, trial: Trial) -> Remedy:
    """What the rule advises, whose example may be to spawn: that was tried."""
    spawned = rung_named(trial, "spawn")
    if "spawn" not in remedy.text or spawned is None or spawned.status != FAIL:
        return remedy
    return msgspec.structs.replace(remedy, text=f"{remedy.text} Spawned workers, as it is, fail: {spawned.reason}")


def _remedy(trial: Trial, failed: Rung) -> Remedy:
    one, spawned = rung_named(trial, "one-worker"), rung_named(trial, "spawn")
    if spawned is not None and spawned.status == PASS:
        return Remedy(
            'Spawned workers work: DataLoader(…, multiprocessing_context="spawn"). Something that the dataset or a '
            "library holds does not survive a fork: open files, connections and thread pools on first use."
        )
    if failed.name == "workers" and one is not None and one.status == PASS:
        return Remedy("num_workers=1 works until it is known what the workers share: a file, a port, a lock, memory.")
    return Remedy(f"num_workers=0 works meanwhile. The recording of that rung is in {failed.folder}.")
