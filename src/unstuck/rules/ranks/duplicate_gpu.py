"""Several ranks use the same GPU, which NCCL refuses.

## What it looks at
NCCL's own words in the exception that ended a rank: "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device
f000". Every rank that raised them names itself and one other; together they say who shares which GPU.

## Why it happens
Nothing puts a rank on a GPU of its own: without `torch.cuda.set_device` every rank uses the first one it sees. Or there
are more ranks on the node than GPUs, or `CUDA_VISIBLE_DEVICES` names the same GPU for several.

## What to do
Set the device by `LOCAL_RANK` before `init_process_group` and before anything is put on a GPU, and start no more ranks
on a node than it has GPUs. `nvidia-smi` lists which GPU has which PCI address: NCCL writes it without zeros and colons.

## How sure it is
Certain: NCCL compares the PCI addresses itself, and has no other reason for these words. Which of the three reasons it
is does not show. Never tried on a GPU: the words are those of public threads and of NCCL's source.
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


class Refused(NamedTuple):
    """A rank that NCCL would not let in, and its words."""

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
            cause=f"{listed(shared).capitalize()}{of_group} use the same GPU (CUDA device {first.error.device}); NCCL "
            "needs one GPU for each rank.",
            seen=list(_seen(refused)),
            remedy=Remedy(
                "Set the device of each rank before init_process_group and before anything is put on a GPU: "
                'torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) under torchrun, else the number of the rank on '
                "its node. Start no more ranks on a node than it has GPUs; CUDA_VISIBLE_DEVICES, if set, has to name "
                "one for each.",
                ["nvidia-smi --query-gpu=index,pci.bus_id --format=csv"],
            ),
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
        under = f", under {line(place)} in {place.function}" if place is not None else ""
        words = f"Duplicate GPU detected : rank {one.ranks[0]} and rank {one.ranks[1]} both on CUDA device"
        yield f"{who(one.process)}: {words} {one.error.device}{under}"
    if len(refused) > 4:
        yield f"{len(refused) - 4} more ranks said so"
