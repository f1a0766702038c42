"""Deadlock: only some ranks run validation, and a collective in it needs all of them.

## It means

Validation is under a condition that differs between ranks: `if rank == 0:`, only the rank with a progress bar or a
logger, a metric that only one rank has. A reduction or gather of the metrics inside, or a forward of the DDP model with
buffers, needs all ranks, and waits forever.

## Fix

Let all ranks validate, each on its part, and reduce the sums:

```python
# before
if rank == 0:
    validate(model, loader)

# after
right, count = validate(model, loader_of_this_rank)
sums = torch.tensor([right, count], dtype=torch.float64, device=device)
dist.all_reduce(sums)
accuracy = (sums[0] / sums[1]).item()
```

Or validate on one rank without any collective, and send the result. The other ranks wait in the broadcast, so the
validation has to be shorter than the timeout of the process group (NCCL: 10 minutes unless you raise it):

```python
result = torch.zeros(1, device=device)
if rank == 0:
    result += validate(model.module, whole_loader)  # model.module: no DDP, no collective
dist.broadcast(result, src=0)
```

## Check it yourself

```sh
pgrep -f train.py | xargs -n 1 py-spy dump --pid       # one rank is in validate(), the others are in backward
grep -nE "rank *== *0|is_main_process|is_global_zero" train.py
```

## Not this, if

- the collective is not part of a validation: [rank0-only-collective](rank0-only-collective.md)
- all ranks validate, with different numbers of batches: [ddp-uneven-batches](ddp-uneven-batches.md)
- rank 0 validates for a long time, and the others time out:
  [main-process-first-timeout](main-process-first-timeout.md)

## How sure

Judged from the first collective that one side of the ranks calls and the other does not, by torch's Flight Recorder,
and from the phase each rank was in at that moment: a validation that the others never entered. Sure about which rank
called what, and that the others were in no validation. What counts as one: evaluation mode, `no_grad`, a loader without
optimizer steps, or `unstuck.phase("validation")`.

## Seen in

- https://github.com/Project-MONAI/MONAI/issues/4659: dice_metric.aggregate() in a validation on rank 0 only
- https://github.com/pytorch/pytorch/issues/54059: a validation on one GPU makes the next barrier hang
- https://github.com/weecology/DeepForest/issues/1407: metrics computed only on ranks that have boxes
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed, told
from ...analysis.shares import Alone, alone
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, many
from ..rule import rule
from ._timeouts import raised


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    found = alone(case)
    if found is None or not found.in_validation or found.phase is None:
        return
    first, who, ranks = found.parting.first, found.who, found.parting.ranks
    crashed = any(one.death is not None for one in found.stands)
    runs = "runs" if len(ranks) == 1 else "run"
    cause = f"{'only' if crashed else 'Deadlock: only'} {listed(ranks)} {runs} validation, and its {found.call} needs "
    yield case.finding(
        who,
        cause=f"{cause[:1].upper()}{cause[1:]}{listed(found.parting.others)}.",
        seen=list(_seen(found)),
        remedy=Remedy(f"Let all ranks validate, each on its part of the data; then all of them call {found.call}."),
        alternatives=_alternatives(found),
        onset_s=first.at,
        where=first.where,
        symptom=(Symptom.CRASHED if crashed else Symptom.STUCK).value,
    )


def _seen(found: Alone) -> Iterator[str]:
    yield from told(found.stands)
    phase, parting = found.phase, found.parting
    if phase is not None:
        yield f"validation of epoch {phase.number} on rank {found.who.rank}: {many(phase.batches, 'batch')}"
    yield f"{listed(parting.others)}: no validation in that epoch"
    if parting.first.sequence:
        yield f"all ranks made the same calls up to collective {parting.first.sequence - 1:,}"


def _alternatives(found: Alone) -> list[Remedy]:
    """A rank that validates alone keeps the others waiting, for no longer than their group allows."""
    process = found.who.process
    group = process.group if process is not None else None
    limit = f" ({duration(group.timeout)})" if group is not None and group.timeout else ""
    alone = Remedy(
        f"Validate on {listed(found.parting.ranks)} alone, without {found.call}, and send the result; "
        f"it must finish within the group's timeout{limit}.",
        code=[
            "result = torch.zeros(1, device=device)",
            f"if rank == {found.parting.ranks[0]}:",
            "    result += validate(model.module)",
            f"dist.broadcast(result, src={found.parting.ranks[0]})",
        ],
    )
    if process is None:
        return [alone]
    longer = "Raise that timeout, if the validation takes longer."
    return [alone, Remedy(longer, code=[raised(process, minutes=60)])]
