"""The launcher starts the run anew and anew, and every attempt dies in the same way.

## What it looks at
How each attempt of the run ended: which rank died first, of which exception at which line or of which signal, after how
many steps and how long. It speaks when the last attempt has died of the same as all before it.

## Why it happens
`torchrun --max-restarts`, Slurm's requeue or a pod's restart policy help against what happens once: a node that fails,
a connection that breaks. An error in the code, the data or the settings comes back every time, at the same sample or at
the same limit; restarting only uses up hours, and often the log of the first attempt with them.

## What to do
Treat it as one crash: look at the line, with `--max-restarts 0` while doing so. If every attempt begins from the last
checkpoint and dies at the same step, the reason lies in the data that comes next, or in the checkpoint itself.

## How sure it is
Certain that all attempts ended alike. Why they did, another rule says if it can: then this is its consequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...model.distributed import Attempt
from ...model.evidence import Evidence
from ...model.first_dead import Death, first_dead
from ...model.phrases import duration, ending, line, many, said, short, who
from ...model.places import Place
from ...model.report import Finding, Remedy, Symptom
from ...model.rule import rule

ALIKE = 0.25  # of the longest: attempts that lasted so nearly the same time died at the same moment of their lives
NUMBERS = {2: "Both"}
SHORTEST = 1.0  # seconds: below, differences in starting up say nothing


@rule(
    explains=Symptom.CRASHED,
    needs=("recording", "exits"),
    outranks=("uncaught-exception", "main-killed", "rank-crash-cascade"),
    behind=(Symptom.CRASHED, "collective-timeout", "rendezvous-peer-missing"),  # who explains the death is the cause
)
def check(evidence: Evidence) -> Iterator[Finding]:
    last = first_dead(evidence)
    if not evidence.attempts or last is None or any(one.alive for one in evidence.mains() if one.rank is not None):
        return
    if any(_way(one.type, one.status, one.where) != _way_of(last) for one in evidence.attempts):
        return
    tries = [*(Try(one.steps, one.batches, one.ended - one.began) for one in evidence.attempts), _try(evidence, last)]
    yield Finding(
        cause=f"{NUMBERS.get(len(tries), f'All {len(tries)}')} attempts of this run died of {last.words}"
        f"{_when(tries)}: starting it anew does not help.",
        seen=[*(_told(one) for one in evidence.attempts[-3:]), _told_last(last, tries)],
        remedy=_remedy(last, tries),
        node=last.process.node,
        rank=last.process.rank,
        pid=last.process.pid,
        onset_s=evidence.attempts[0].ended,
        where=last.where,
    )


class Try(NamedTuple):
    """How far an attempt came."""

    steps: int
    batches: int
    seconds: float


def _try(evidence: Evidence, last: Death) -> Try:
    """Of the last attempt, as of the others: by the rank that came furthest."""
    ranks = [one for one in evidence.mains() if one.rank is not None]
    batches = max((loader.batches for one in ranks for loader in one.loaders), default=0)
    began = min((one.opened for one in ranks), default=last.process.opened)
    return Try(max((one.optimizer_steps for one in ranks), default=0), batches, last.at - began)


def _way(kind: str, status: int | None, where: Place | None) -> tuple[object, ...]:
    """An exception at a line, or a status: what has to be the same."""
    return (kind, where) if kind else (status,)


def _way_of(last: Death) -> tuple[object, ...]:
    return _way(last.failure.type if last.failure is not None else "", last.status, last.where)


def _when(tries: list[Try]) -> str:
    """What else they had in common, if anything."""
    if len({one.steps for one in tries}) == 1 and tries[0].steps:
        return f", each after {many(tries[0].steps, 'step')}"
    if len({one.batches for one in tries}) == 1 and tries[0].batches:
        return f", each at batch {tries[0].batches:,}"
    times = [one.seconds for one in tries]
    alike = max(times) - min(times) <= max(ALIKE * max(times), SHORTEST)
    return f", each after about {duration(sum(times) / len(times))}" if alike else ""


def _told(one: Attempt) -> str:
    what = f"{one.type}: {one.message.strip().splitlines()[0][:120] if one.message.strip() else ''}" if one.type else ""
    by = what or (ending(one.status) if one.status is not None else "unseen")
    rank = f"rank {one.rank}" if one.rank is not None else f"pid {one.pid}"
    return f"attempt {one.number + 1}: {rank}, {by}{_at(one.where)}, after {_far(one.steps, one.batches)}"


def _told_last(last: Death, tries: list[Try]) -> str:
    what = said(last.failure, 160) if last.failure is not None else last.words
    far = _far(tries[-1].steps, tries[-1].batches)
    return f"attempt {len(tries)}: {who(last.process)}, {what}{_at(last.where)}, after {far}"


def _at(where: Place | None) -> str:
    return f", at {line(where)}" if where is not None else ""


def _far(steps: int, batches: int) -> str:
    return many(steps, "step") if steps else many(batches, "batch")


def _remedy(last: Death, tries: list[Try]) -> Remedy:
    at = f" at {short(last.where)}" if last.where is not None else ""
    same = len({one.batches for one in tries}) == 1 and tries[0].batches
    data = f", with batch {tries[0].batches:,} at hand" if same else ""
    kind = last.words.partition(" at ")[0]
    return Remedy(f"Look at the {kind}{at}{data}, and start it only once until it is mended: --max-restarts 0.")
