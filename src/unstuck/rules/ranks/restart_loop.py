"""The launcher starts the run anew and anew, and every attempt dies in the same way.

## What it looks at
How each attempt of the run ended: which rank died first, of which exception at which line or of which signal, after how
many steps and how long. It speaks when the last attempt has died of the same as all before it, or when the ranks of
later ones could not even meet.

## Why it happens
`torchrun --max-restarts`, Slurm's requeue or a pod's restart policy help against what happens once: a node that fails,
a connection that breaks. An error in the code, the data or the settings comes back every time, at the same sample or at
the same limit; restarting only uses up hours, and often the log of the first attempt with them.

## What to do
Treat it as one crash: look at the line, with `--max-restarts 0` while doing so. If every attempt begins from the last
checkpoint and dies at the same step, the reason lies in the data that comes next, or in the checkpoint itself. With
gloo, ranks that are started anew may read the addresses of those before them, for torchrun keeps one store for all
attempts: then they die of "connectFullMesh failed", until `TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1` is set.

## How sure it is
Certain that all attempts ended alike. Why they did, another rule says if it can: then this is its consequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.rank_deaths import Death, first_dead
from ...evidence.basics import Place
from ...evidence.distributed import Attempt
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, line, many, short, signal_name
from ..rule import Level, rule

ALIKE = 0.25  # of the longest: attempts that lasted so nearly the same time died at the same moment of their lives
SHORTEST = 1.0  # seconds: below, differences in starting up say nothing
NOT_MET = "connectFullMesh failed"  # how gloo says that nobody is at the address that it has read in the store
OWN_STORE = "export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"


class End(NamedTuple):
    """How an attempt ended, and how far it came."""

    number: int  # the first is 1
    rank: int | None
    kind: str  # the exception, the signal or the exit code
    message: str
    where: Place | None
    steps: int
    batches: int
    seconds: float

    @property
    def not_met(self) -> bool:
        return NOT_MET in self.message

    @property
    def way(self) -> tuple[str, Place | None]:
        """What has to be the same."""
        return self.kind, self.where


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording", "exits"),
    level=Level.ECHO,
    outranks=("uncaught-exception", "main-killed", "rank-crash-cascade"),
    yields_to=(Symptom.CRASHED, "collective-timeout"),
)
def check(case: Case) -> Iterator[Finding]:
    last = first_dead(case)
    if not case.attempts or last is None or any(one.alive for one in case.mains if one.rank is not None):
        return
    ends = [*(_earlier(one) for one in case.attempts), _newest(case, last)]
    died = [one for one in ends if not one.not_met]
    if ends[0].not_met or len({one.way for one in died}) > 1:
        return
    of = died[-1]
    yield case.finding(
        last.process,
        cause=_cause(ends, died),
        seen=[_told(one) for one in ends[-4:]],
        remedy=_remedy(of, died, not_met=len(died) < len(ends)),
        rank=of.rank,
        pid=last.process.pid if of is ends[-1] else None,
        onset_s=case.attempts[0].ended,
        where=of.where,
    )


def _earlier(one: Attempt) -> End:
    kind = one.type or (_status(one.status) if one.status is not None else "an unseen end")
    seconds = one.ended - one.began
    return End(one.number + 1, one.rank, kind, one.message, one.where, one.steps, one.batches, seconds)


def _newest(case: Case, last: Death) -> End:
    """As of the others: how far the rank came that came furthest."""
    ranks = [one for one in case.mains if one.rank is not None]
    batches = max((loader.batches for one in ranks for loader in one.loaders), default=0)
    steps = max((one.optimizer_steps for one in ranks), default=0)
    seconds = last.at - min((one.opened for one in ranks), default=last.process.opened)
    kind, message = _status(last.status or 0), ""
    if last.failure is not None:
        kind, message = last.failure.type, last.failure.message
    return End(len(case.attempts) + 1, last.process.rank, kind, message, last.where, steps, batches, seconds)


def _status(status: int) -> str:
    return signal_name(status) if status < 0 else f"exit code {status}"


def _cause(ends: list[End], died: list[End]) -> str:
    of = f"{died[-1].kind}{f' at {short(died[-1].where)}' if died[-1].where is not None else ''}"
    all_of_them = "Both" if len(ends) == 2 else f"All {len(ends)}"
    if len(died) == len(ends):
        return f"{all_of_them} attempts of this run died of {of}{_when(died)}: starting it anew does not help."
    rest = many(len(ends) - len(died), "attempt")
    return (
        f"{all_of_them} attempts of this run died: {len(died)} of {of}, and in {rest} the ranks did not meet, "
        "for they found the addresses of those before them."
    )


def _when(ends: list[End]) -> str:
    """What else they had in common, if anything."""
    if len({one.steps for one in ends}) == 1 and ends[0].steps:
        return f", each after {many(ends[0].steps, 'step')}"
    if len({one.batches for one in ends}) == 1 and ends[0].batches:
        return f", each at batch {ends[0].batches:,}"
    times = [one.seconds for one in ends]
    alike = max(times) - min(times) <= max(ALIKE * max(times), SHORTEST)
    return f", each after about {duration(sum(times) / len(times))}" if alike else ""


def _told(one: End) -> str:
    first = one.message.strip().splitlines()[:1]
    what = f"{one.kind}: {first[0][:120]}" if first else one.kind
    at = f", at {line(one.where)}" if one.where is not None else ""
    far = many(one.steps, "step") if one.steps else many(one.batches, "batch") if one.batches else duration(one.seconds)
    return f"attempt {one.number}: rank {one.rank}, {what}{at}, after {far}"


def _remedy(of: End, died: list[End], *, not_met: bool) -> Remedy:
    at = f" at {short(of.where)}" if of.where is not None else ""
    data = f", with batch {of.batches:,} at hand" if len({one.batches for one in died}) == 1 and of.batches else ""
    text = f"Look at the {of.kind}{at}{data}, and start it only once until it is mended: --max-restarts 0."
    if not not_met:
        return Remedy(text)
    return Remedy(f"{text} For restarts that can work, let torchrun keep a store for each attempt.", [OWN_STORE])
