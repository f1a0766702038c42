"""Ranks called the same collective with tensors of different sizes.

## It means

Most collectives need the same shape on all ranks. What differs is mostly the last batch of an epoch, a sequence length,
a mask that selects another number of rows on each rank, or a model that is built differently by rank. gloo aborts the
process that gets more than it has room for. NCCL does not check: there it hangs or gives wrong numbers.

## Fix

Make the sizes equal before the call:

```python
# the last batch differs
DataLoader(dataset, batch_size=8, drop_last=True)

# pad, then gather (accelerate; gather_for_metrics alone does not pad)
predictions = accelerator.pad_across_processes(predictions, dim=1)
predictions = accelerator.gather(predictions)

# pad dimension 0 with plain torch
longest = torch.tensor(rows.shape[0], device=rows.device)
dist.all_reduce(longest, op=dist.ReduceOp.MAX)
rows = F.pad(rows, (0, 0) * (rows.dim() - 1) + (0, longest.item() - rows.shape[0]))

# or send what each rank has, of any size (pickled: only for small things)
found = [None] * dist.get_world_size()
dist.all_gather_object(found, rows.cpu())
```

If DistributedDataParallel says so while it is made, build the same model on every rank: nothing that depends on the
rank or on its data may shape it.

## Check it yourself

```sh
TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --nproc-per-node 2 train.py     # torch compares the ranks and names the sizes
ACCELERATE_DEBUG_MODE=1 accelerate launch train.py                      # the same for accelerate's collectives
```

With DDP on gloo, torch 2.13 was seen to crash when it is told to compare; print the shapes instead:

```python
print(dist.get_rank(), tensor.shape, flush=True)      # right before the collective
```

## Not this, if

- the ranks are in different collectives: [rank0-only-collective](rank0-only-collective.md),
  [collectives-out-of-step](collectives-out-of-step.md)
- one rank has fewer batches: [ddp-uneven-batches](ddp-uneven-batches.md)
- rank 0 joins the batches of all ranks:
  [accelerate-dispatch-shape-mismatch](accelerate-dispatch-shape-mismatch.md)

## How sure

Judged from a rank that a thread of gloo's aborted while its main thread was in a collective, from what torch itself
says where it compares the ranks (DDP when it is made, `TORCH_DISTRIBUTED_DEBUG=DETAIL`, accelerate's debug mode), and
from the sizes in torch's Flight Recorder, where ranks are at the same line with different ones. Certain where torch
compared the ranks, and where their sizes are known. An abort by gloo's own thread inside a collective has no other
cause that is known here; the sizes are known as far as a rank wrote them down before it ended. NCCL was not tried here.

## Seen in

- https://github.com/PrimeIntellect-ai/prime-diloco/issues/68: gloo::EnforceNotMet in the middle of a training
- https://github.com/pytorch/gloo/pull/456: where the message "Received data size doesn't match expected size" is from
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...analysis.collectives import DDP, Had, brought, differing, least, said_by_torch, shape
from ...analysis.rank_deaths import GAVE_UP, KILLED, PARTNER_GONE, Death, deaths
from ...analysis.ranks import waiting
from ...analysis.torch_errors import with_setting
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, line, many, said, who
from ..rule import Level, rule

TEXTS = (
    "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
    "op.preamble.length <= op.nbytes",
    "Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?",
    "Detected mismatch between collectives on ranks.",
    "appears not to match sizes of the same param in process 0",
    "due to shape mismatches",
)
SIGABRT = -6
COLLECTIVES = "torch/distributed/distributed_c10d.py"
DIED = (KILLED, PARTNER_GONE, GAVE_UP)
COMPARE = "TORCH_DISTRIBUTED_DEBUG=DETAIL"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    ended = deaths(case)
    found = _told(case, ended) or _recorded(case, ended) or _aborted(case, ended)
    if found is not None:
        yield found


def _told(case: Case, ended: list[Death]) -> Finding | None:
    """torch has compared the ranks and said so."""
    for one in ended:
        said_so = said_by_torch(one.failure) if one.failure is not None else None
        if said_so is not None and one.failure is not None:
            operation, had = said_so
            ranks = {other.process.rank: other.process for other in ended}
            process = ranks.get(least(had).rank, one.process)
            seen = [f"{who(one.process)}: {said(one.failure)}", *_all_of(had)]
            return _finding(case, process, _differ(operation, had), seen, one.at, one.where, operation, known=True)
    return None


def _recorded(case: Case, ended: list[Death]) -> Finding | None:
    """The Flight Recorder of several ranks, where a rank crashed or the run makes no progress."""
    some = differing(case)
    stands = {one.where for one in waiting(case) if one.where is not None}
    if not some or not (case.stall is not None or any(one.how in DIED for one in ended)):
        return None
    entry, where = some[0][1], some[0][1].where or next(iter(stands), None)
    had = [Had(one.rank or 0, shape(sizes.sizes)) for one, sizes in some]
    cause = _differ(entry.operation, had)
    seen = [f"collective {entry.sequence:,} of its group in the Flight Recorders of these ranks", *_all_of(had)]
    process = next(one for one, _ in some if one.rank == least(had).rank)
    found = _finding(case, process, cause, seen, entry.at, where, entry.operation, known=True)
    return found if ended else msgspec.structs.replace(found, symptom=Symptom.STUCK.value)


def _aborted(case: Case, ended: list[Death]) -> Finding | None:
    """gloo's thread aborted the process, because it got more data than there was room for."""
    for one in ended:
        process, operation = one.process, _collective(one.process.crash_beside)
        gloo = process.group is not None and "gloo" in process.group.backend
        if one.status != SIGABRT or operation is None or not gloo:
            continue
        others = [other for other in ended if other.process is not process]
        had = [Had(other.process.rank or 0, shape) for other in others if (shape := brought(other.process, one.where))]
        rests = _rests(ended)
        seen = [
            f"gloo aborted {who(process)} in {operation} at {line(one.where)}, after {duration(one.at)}",
            *(
                f"rank {other.process.rank} lost the connection at {line(other.where)}"
                for other in others
                if _lost(other)
            ),
            *_all_of(had),
            *_batches(rests),
        ]
        cause = _smaller(process, operation, others, rests)
        return _finding(case, process, cause, seen, one.at, one.where, operation, last=bool(rests))
    return None


def _collective(calls: list[Place]) -> str | None:
    """The outermost call into torch's collectives, which is the one that the user made."""
    return next((one.function for one in calls if COLLECTIVES in one.file), None)


def _lost(other: Death) -> bool:
    return other.how == PARTNER_GONE and other.where is not None


def _smaller(process: Process, operation: str, others: list[Death], rests: dict[int | None, int]) -> str:
    than = f"that of rank {others[0].process.rank}" if len(others) == 1 else "another rank's"
    mine, most = rests.get(process.rank), max(rests.values(), default=0)
    samples = f" ({mine} vs {most} samples)" if mine is not None and mine < most else ""
    return f"Crash in {operation}: the tensor of rank {process.rank} is smaller than {than}{samples}."


def _differ(operation: str, had: list[Had]) -> str:
    """The smallest and one that differs: the others are in the evidence."""
    small = least(had)
    two = sorted([small, next((one for one in had if one.what != small.what), had[-1])], key=lambda one: one.rank)
    what = "made" if operation == DDP else "called"
    return f"Ranks {what} {operation} with different sizes: {_list(two)}."


def _all_of(had: list[Had]) -> Iterator[str]:
    if len(had) > 2:
        yield _list(had[:8])


def _rests(ended: list[Death]) -> dict[int | None, int]:
    """Samples of the last batch of an epoch by rank, where the ranks are there and it differs: the usual suspect."""
    rests = {one.process.rank: rest for one in ended if (rest := _rest(one.process))}
    return rests if len(set(rests.values())) > 1 else {}


def _batches(rests: dict[int | None, int]) -> Iterator[str]:
    if rests:
        told = ", ".join(f"{many(rest, 'sample')} on rank {rank}" for rank, rest in sorted(rests.items()))
        yield f"the last batch of the epoch differs: {told}"


def _rest(process: Process) -> int | None:
    """Samples of the last batch of an epoch, if it is at that one and the loader reads its dataset in order."""
    loader = process.newest_loader
    if loader is None or loader.drop_last or not loader.batch_size or not loader.dataset_length:
        return None
    full = (loader.dataset_length - 1) // loader.batch_size
    plain = loader.length == loader.pass_batches == full + 1
    return loader.dataset_length - full * loader.batch_size if plain else None


def _list(had: list[Had]) -> str:
    return ", ".join(f"rank {one.rank} had {one.what}" for one in had)


def _finding(
    case: Case,
    process: Process,
    cause: str,
    seen: list[str],
    at: float,
    where: Place | None,
    operation: str,
    *,
    known: bool = False,
    last: bool = False,
) -> Finding:
    remedies = _remedies(process, operation, last=last)
    if not (known or last or process.wrapped):  # with DDP on gloo, torch 2.13 crashes when it is told to compare
        told = "Run it once more with torch's comparison on: it names the sizes of the ranks."
        remedies.append(Remedy(told, [with_setting(case, COMPARE)]))
    return case.finding(
        process,
        cause=cause,
        seen=seen,
        remedy=remedies[0],
        alternatives=remedies[1:],
        onset_s=at,
        where=where,
        subject=Subject("collective", operation),
    )


def _remedies(process: Process, operation: str, *, last: bool) -> list[Remedy]:
    if operation == DDP:
        return [Remedy("Build the same model on every rank: neither the rank nor its data may shape it.")]
    found = []
    if last:
        drop = settings(process.newest_loader, drop_last=True)
        line_of_code = f"DataLoader(..., {drop})" if drop == "drop_last=True" else drop
        found.append(Remedy("Drop the smaller last batch, so all ranks have the same size.", code=[line_of_code]))
    if "gather" in operation:
        found.append(_padded(process))
        any_size = f"Use all_gather_object instead of {operation}: it takes any size (pickled, so for small tensors)."
        code = ["found = [None] * dist.get_world_size()", "dist.all_gather_object(found, tensor.cpu())"]
        found.append(Remedy(any_size, code=code))
    return found or [Remedy(f"Give all ranks the same size before {operation}: pad, cut, or drop the last batch.")]


def _padded(process: Process) -> Remedy:
    if process.prepared:
        return Remedy(
            "Pad to the largest size before gather (gather_for_metrics does not pad).",
            code=["tensor = accelerator.pad_across_processes(tensor, dim=0)", "tensor = accelerator.gather(tensor)"],
        )
    return Remedy(
        "Pad to the largest size of all ranks before the call.",
        code=[
            "most = torch.tensor(tensor.shape[0], device=tensor.device)",
            "dist.all_reduce(most, op=dist.ReduceOp.MAX)",
            "tensor = F.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, most.item() - tensor.shape[0]))",
        ],
    )
