"""Deadlock or wrong gradients: one rank skipped a step on its own, and the ranks are out of step.

## It means

`continue` on a loss that is not finite, on a bad or overlong batch, `break` or early stopping by a value that only this
rank has. Collectives pair by order: the next backward of that rank is paired with the one the others are in, gradients
of different steps are averaged, and at the end one rank has a step left and no partner for it. With NCCL it often hangs
soon after the warning about NaN; with gloo it goes on and crashes at the end.

## Fix

Decide together, before the backward:

```python
# before
if not torch.isfinite(loss):
    continue

# after: all ranks skip, or none
bad = (~torch.isfinite(loss)).float()
dist.all_reduce(bad, op=dist.ReduceOp.MAX)
if bad:
    continue
loss.backward()
```

For a batch that is only unwanted and has a finite loss, keep the step and give it no weight: `loss = loss * 0.0`. Not
for NaN: 0 times NaN is NaN.

With DDP and a GradScaler no code is needed for Inf in the gradients: all ranks see the same averaged gradients and skip
the same step.

## Check it yourself

```python
steps = [None] * dist.get_world_size()
dist.all_gather_object(steps, optimizer_steps)  # your own counter, at the end of an epoch
print(steps)  # has to be the same number on every rank
```

```sh
grep -nE "continue|break|return" train.py           # inside the training loop, under a condition on this rank's data
```

## Not this, if

- the rank had fewer batches: [ddp-uneven-batches](ddp-uneven-batches.md)
- only some ranks call a barrier, a gather or a save: [rank0-only-collective](rank0-only-collective.md)
- a rank crashed: [rank-crash-cascade](rank-crash-cascade.md)

## How sure

Judged from batches and optimizer steps of each rank, epoch by epoch, over the same loader: a rank that is done with a
batch and has not made the step that the others want to make with theirs. And from torch's Flight Recorder: at which
number of its sequence each rank began the same epoch. Sure where a rank waits to make a step that another has left out.
While the run goes on it speaks only where ended epochs with equal batches have different steps and the sequence numbers
of the ranks differ, too.

## Seen in

- https://github.com/NVIDIA-NeMo/Automodel/pull/2468: `continue` on one rank; now all ranks decide with a reduced flag
- https://github.com/ecmwf/WeatherGenerator/issues/2724: the decision was made on rank 0 only
- https://github.com/Lightning-AI/pytorch-lightning/issues/5243: None returned from training_step on one rank
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed, stand, told
from ...analysis.shares import Apart, Share, Shift, shifted, skipped
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import many
from ..rule import rule


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    apart = skipped(case)
    if apart is not None:
        yield _stuck(case, apart)
        return
    shift = shifted(stand(case))
    if shift is not None:
        yield _goes_on(case, shift)


def _stuck(case: Case, apart: Apart) -> Finding:
    one, first = apart.one, apart.first
    died = all(each.stand.death is not None for each in apart.behind)
    cause = f"{'' if died else 'Deadlock: '}rank {one.rank} {_did(one)}; {_others(apart, died=died)}."
    return case.finding(
        one.stand,
        cause=cause[:1].upper() + cause[1:],
        seen=[*_counts([one, *apart.behind]), *told(apart.stands)],
        remedy=_remedy(),
        alternatives=[_weightless()],
        rank=one.rank,
        where=first.stand.where,
        subject=Subject("loader", one.loader.name),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _did(one: Share) -> str:
    counts = f"({many(one.loader.batches, 'batch')}, {many(one.process.optimizer_steps, 'step')})"
    return f"{'broke out of its loop' if one.left else 'skipped a step'} on its own {counts}"


def _others(apart: Apart, *, died: bool) -> str:
    waits = "crashed" if died else "waits" if len(apart.behind) == 1 else "wait"
    return f"{listed(one.rank for one in apart.behind)} {waits} in {apart.first.stand.call or 'its own code'}"


def _counts(shares: list[Share]) -> Iterator[str]:
    for one in shares[:4]:
        yield (
            f"rank {one.rank}: {many(one.loader.batches, 'batch')}, {many(one.process.optimizer_steps, 'step')}; "
            f"{'inside' if one.inside else 'after'} epoch {one.loader.passes:,}, "
            f"{many(one.loader.pass_batches, 'batch')} of it"
        )
    yield f"loader: {shares[0].loader.name}"


def _goes_on(case: Case, shift: Shift) -> Finding:
    one, other = shift.fewer, shift.more
    return case.finding(
        one.stand,
        cause=f"Ranks are out of step since epoch {shift.number:,}: rank {one.rank} made "
        f"{many(shift.steps[0], 'step')}, rank {other.rank} {shift.steps[1]:,} with the same batches.",
        seen=[
            f"epoch {shift.number:,} over {one.loader.name} had {shift.batches:,} batches on both",
            f"after epoch {shift.seen_at:,}, rank {one.rank} went on with collective {shift.begins[0]:,} of its "
            f"sequence, rank {other.rank} with {shift.begins[1]:,}",
            "since then every step averages gradients of different steps; at the end one rank will have no partner",
        ],
        remedy=_remedy(),
        alternatives=[_weightless()],
        rank=one.rank,
        where=one.loader.reads_at or one.loader.created,
        subject=Subject("loader", one.loader.name),
        symptom=Symptom.WRONG.value,
    )


def _remedy() -> Remedy:
    return Remedy(
        "Let all ranks decide together, before the backward, wherever one rank alone would continue, break or return.",
        code=[
            "bad = (~torch.isfinite(loss)).float()",
            "dist.all_reduce(bad, op=dist.ReduceOp.MAX)",
            "if bad:",
            "    continue",
        ],
    )


def _weightless() -> Remedy:
    return Remedy(
        "Keep the step of an unwanted batch and give it no weight (only if its loss is finite).",
        code=["loss = loss * 0.0"],
    )
