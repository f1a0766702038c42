"""Several ranks use the same GPU, which NCCL refuses.

## It means

Every rank needs a GPU of its own. Without `torch.cuda.set_device` every rank uses the first GPU it sees. Or there are
more ranks on the node than GPUs, or `CUDA_VISIBLE_DEVICES` names the same GPU for several ranks. A default device that
is hard-coded (`cuda:0`, `device="cuda"`) does the same.

## Fix

Set the device before the process group is made and before anything is put on a GPU:

```python
# before
dist.init_process_group("nccl")
model = Model().to("cuda")

# after
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))  # set by torchrun
torch.cuda.set_device(device)
dist.init_process_group("nccl")
model = Model().to(device)
```

Start no more ranks on a node than it has GPUs:

```sh
torchrun --nproc-per-node gpu train.py
```

## Check it yourself

```sh
nvidia-smi --query-gpu=index,pci.bus_id --format=csv       # NCCL writes the bus id without zeros and colons
echo "$CUDA_VISIBLE_DEVICES"
```

```python
print(os.environ.get("LOCAL_RANK"), torch.cuda.device_count(), torch.cuda.current_device())  # on every rank
```

## Not this, if

- the GPU is full: [cuda-out-of-memory](cuda-out-of-memory.md)
- a rank never joined: [rendezvous-peer-missing](rendezvous-peer-missing.md)

## How sure

Certain: NCCL compares the PCI addresses itself, and has no other reason for these words, which are read from the
exception that ended a rank. Every rank that raised them names itself and one other; together they say which ranks share
which GPU. Which of the reasons above it is does not show. Never tried on a GPU: the words are those of public threads
and of NCCL's source.

## Seen in

- https://github.com/NVIDIA/Megatron-LM/issues/661: eight ranks on one GPU, noticed at the first barrier
- https://github.com/Peterande/D-FINE/issues/289: a default GPU that was set in train.py
- https://github.com/facebookresearch/msn/issues/24: own code had put every rank on the same device
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case, user_line
from ...analysis.failures import ended_by
from ...analysis.ranks import listed
from ...analysis.torch_errors import TorchError, errors_of
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure, Process
from ...wording.text import line, who
from ..rule import rule

TEXTS = (
    "Duplicate GPU detected : rank",
    "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
)


class Refused(NamedTuple):
    """A rank that NCCL refused, and its words."""

    process: Process
    failure: Failure
    error: TorchError
    ranks: tuple[int, int]  # within the group that was being made


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    refused = sorted(_refused(case), key=lambda one: one.failure.at)
    for first in refused[:1]:
        shared = sorted({rank for one in refused if _same(one, first) for rank in one.ranks})
        of_group = " of a process group" if first.process.rank not in (None, first.ranks[0]) else ""
        yield case.finding(
            first.process,
            cause=f"The same GPU (CUDA device {first.error.device}) is used by {listed(shared)}{of_group}; "
            "NCCL needs one each.",
            seen=list(_seen(refused)),
            remedy=Remedy(
                "Set the device of each rank before init_process_group and before anything is put on a GPU.",
                code=['torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # LOCAL_RANK is set by torchrun'],
            ),
            alternatives=[
                Remedy(
                    "Start no more ranks on a node than it has GPUs.",
                    ["nvidia-smi --query-gpu=index,pci.bus_id --format=csv"],
                ),
                Remedy("List as many different GPUs in CUDA_VISIBLE_DEVICES as the node has ranks, or unset it."),
            ],
            onset_s=first.failure.at,
            where=user_line(first.failure),
            subject=Subject("gpu", first.error.device),
        )


def _refused(case: Case) -> Iterator[Refused]:
    for process in case.mains:
        failure = ended_by(process)
        for error in errors_of(failure) if failure is not None else ():
            if failure is not None and error.same_gpu is not None:
                yield Refused(process, failure, error, error.same_gpu)
                break


def _same(one: Refused, other: Refused) -> bool:
    """PCI addresses of two nodes may be equal."""
    return (one.process.node, one.error.device) == (other.process.node, other.error.device)


def _seen(refused: list[Refused]) -> Iterator[str]:
    for one in refused[:4]:
        place = user_line(one.failure)
        under = f", at {line(place)} in {place.function}" if place is not None else ""
        words = f"Duplicate GPU detected : rank {one.ranks[0]} and rank {one.ranks[1]} both on CUDA device"
        yield f"{who(one.process)}: {words} {one.error.device}{under}"
    if len(refused) > 4:
        yield f"{len(refused) - 4} more ranks raised the same"
