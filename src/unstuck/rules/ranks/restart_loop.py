"""Every restart of the run crashes in the same way.

## It means

`torchrun --max-restarts`, Slurm's requeue or a pod's restart policy help against what happens once: a node that fails,
a connection that breaks. An error in the code, the data or the settings comes back every time, at the same sample or at
the same limit. Restarting only uses up hours, and often overwrites the log of the first attempt.

## Fix

Treat it as one crash. Run it without restarts while you look at the line:

```sh
torchrun --max-restarts 0 --nproc-per-node 8 train.py
```

If every attempt begins from the last checkpoint and crashes at the same step, the reason is in the data that comes
next, or in the checkpoint itself: skip or inspect that batch, or resume from an older checkpoint.

With gloo, restarted ranks may read the addresses of the ranks before them, because torchrun keeps one store for all
attempts. They fail with "connectFullMesh failed" until each attempt gets a store of its own:

```sh
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --max-restarts 3 --nproc-per-node 8 train.py
```

## Check it yourself

```sh
grep -nE "restart_count|attempt|Error|exitcode" train.log       # the same error, at the same step, each time?
sacct -j "$SLURM_JOB_ID" --duplicates -o JobID,State,ExitCode   # Slurm: earlier runs of a requeued job
```

## Not this, if

- the attempts end in different ways: the last one is reported by its own rule, such as
  [rank-crash-cascade](rank-crash-cascade.md)
- something outside stops every attempt: [stopped-from-outside](stopped-from-outside.md)

## How sure

Judged from how each attempt of the run ended: which rank crashed first, with which exception at which line or which
signal, after how many steps and how long. It speaks when the last attempt ended like all before it, or when the ranks
of later ones could not even meet. Certain that all attempts ended alike. Why they did, another rule says if it can:
then this is its consequence.

## Seen in

- https://github.com/pytorch/pytorch/issues/135712: one store for all attempts breaks restarts; the variable helps
- https://github.com/pytorch/pytorch/issues/167288: "Connection refused" after a restart by torchrun
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.rank_deaths import Death, first_dead
from ...analysis.torch_errors import with_setting
from ...evidence.basics import Place
from ...evidence.distributed import Attempt
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, line, many, short, signal_name
from ..rule import Level, rule

TEXTS = (
    "Gloo connectFullMesh failed with",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
)
ALIKE = 0.25  # of the longest: attempts that lasted nearly the same time ended at the same point
SHORTEST = 1.0  # seconds: below, differences in starting up say nothing
NOT_MET = "connectFullMesh failed"  # how gloo says that no rank is at the address it has read in the store
OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"


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
        remedy=_remedy(of, died),
        alternatives=_own_store(case) if len(died) < len(ends) else [],
        rank=of.rank,
        pid=last.process.pid if of is ends[-1] else None,
        onset_s=case.attempts[0].ended,
        where=of.where,
    )


def _earlier(one: Attempt) -> End:
    kind = one.type or (_status(one.status) if one.status is not None else "unknown end")
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
    of = f"{died[-1].kind}{f' ({short(died[-1].where)})' if died[-1].where is not None else ''}"
    all_of_them = "Both" if len(ends) == 2 else f"All {len(ends)}"
    if len(died) == len(ends):
        return f"{all_of_them} attempts ended the same way: {of}{_when(died)}."
    rest = many(len(ends) - len(died), "attempt")
    return f"{all_of_them} attempts failed: {len(died)} with {of}, and in {rest} the ranks could not connect."


def _when(ends: list[End]) -> str:
    """What else they had in common, if anything."""
    if len({one.steps for one in ends}) == 1 and ends[0].steps:
        return f", after {many(ends[0].steps, 'step')}"
    if len({one.batches for one in ends}) == 1 and ends[0].batches:
        return f", at batch {ends[0].batches:,}"
    times = [one.seconds for one in ends]
    alike = max(times) - min(times) <= max(ALIKE * max(times), SHORTEST)
    return f", after about {duration(sum(times) / len(times))}" if alike else ""


def _told(one: End) -> str:
    first = one.message.strip().splitlines()[:1]
    what = f"{one.kind}: {first[0][:120]}" if first else one.kind
    at = f", at {line(one.where)}" if one.where is not None else ""
    far = many(one.steps, "step") if one.steps else many(one.batches, "batch") if one.batches else duration(one.seconds)
    return f"attempt {one.number}: rank {one.rank}, {what}{at}, after {far}"


def _remedy(of: End, died: list[End]) -> Remedy:
    at = f" at {short(of.where)}" if of.where is not None else ""
    data = f" (batch {of.batches:,})" if len({one.batches for one in died}) == 1 and of.batches else ""
    fix = "Fix the" if of.message else "Find the cause of the"
    return Remedy(f"{fix} {of.kind}{at}{data} first: restarts cannot help. Until then use --max-restarts 0.")


def _own_store(case: Case) -> list[Remedy]:
    """Restarted ranks read the addresses of those before them in the store that torchrun keeps."""
    text = "Give each attempt a store of its own, so restarted ranks can connect."
    return [Remedy(text, [with_setting(case, OWN_STORE)])]
