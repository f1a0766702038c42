"""Ranks that called the same collective with different sizes: what each of them had, as torch or its recorder says."""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple

from .distributed import Collective
from .evidence import Evidence
from .places import Place
from .ranks import waiting
from .recorded import Failure, Process

# torch with TORCH_DISTRIBUTED_DEBUG=DETAIL compares what all ranks are about to do, and names two that differ.
FINGERPRINT = re.compile(
    r"Rank (\d+) is running collective: CollectiveFingerPrint\(SequenceNumber=(\d+), OpType=(\w+),"
    r" TensorShape=\[([\d, ]*)\], TensorDtypes=([\w, ]*?), TensorDevice"
)
# DDP compares the parameters of all ranks when it is made.
PARAMETER = re.compile(r"\[(\d+)\]: params\[(\d+)\] in this process with sizes (\[[\d, ]*\]) appears not to match")
COUNTS = re.compile(r"Rank (\d+) has (\d+) params, while rank (\d+) has inconsistent (\d+) params")
# accelerate does with ACCELERATE_DEBUG_MODE=1.
SHAPES = re.compile(r"- Process (\d+): (\[[\d, \[\]]*\])")
DDP = "DistributedDataParallel"
SHAPES_DIFFER = "due to shape mismatches"
EQUAL = ("all_reduce", "broadcast", "reduce", "all_gather", "_all_gather_base", "_allgather_base", "reduce_scatter")


class Had(NamedTuple):
    """What a rank brought to the collective."""

    rank: int
    what: str  # its shape, or what else differs
    where: Place | None = None


def said_by_torch(failure: Failure) -> tuple[str, list[Had]] | None:
    """The operation, and what each rank that is named had."""
    for text in (failure.message, *(message for _, message in failure.causes)):
        found = _fingerprints(text) or _parameters(text) or _shapes(text)
        if found is not None:
            return found
    return None


def _fingerprints(text: str) -> tuple[str, list[Had]] | None:
    two = FINGERPRINT.findall(text)
    if len(two) != 2 or two[0][2] != two[1][2]:  # different operations: the ranks have parted before
        return None
    same = two[0][3] == two[1][3]
    had = [Had(int(rank), f"[{shape}]{f' of {kind}' if same else ''}") for rank, _, _, shape, kind in two]
    return (two[0][2].lower(), sorted(had)) if had[0].what != had[1].what else None


def _parameters(text: str) -> tuple[str, list[Had]] | None:
    if counts := COUNTS.search(text):
        had = [Had(int(rank), f"{number} parameters") for rank, number in (counts.groups()[:2], counts.groups()[2:])]
        return DDP, had
    if differs := PARAMETER.search(text):
        return DDP, [Had(int(differs[1]), f"{differs[3]} for parameter {differs[2]}"), Had(0, "another shape")]
    return None


def _shapes(text: str) -> tuple[str, list[Had]] | None:
    told = SHAPES.findall(text) if SHAPES_DIFFER in text else []
    return ("gather", [Had(int(rank), shape) for rank, shape in told]) if len(told) > 1 else None


def differing(evidence: Evidence) -> list[tuple[Process, Collective]]:
    """The first collective to which ranks brought different sizes, and what each brought.

    Where operations or lines differ, a rank has left one out or called one too many. So it has if both sizes are those
    of other calls before: a loop over parameters calls the same line with many sizes.
    """
    if len({one.where for one in waiting(evidence) if one.where is not None}) > 1:
        return []
    calls: dict[tuple[str, int], list[tuple[Process, Collective]]] = {}
    for rank in evidence.ranks():
        for one in rank.collectives:
            calls.setdefault((one.group, one.sequence), []).append((rank, one))
    before: set[tuple[str, int]] = set()
    for _, some in sorted(calls.items(), key=lambda call: call[0][1]):
        kinds = {(one.operation, _elements(one)) for _, one in some}
        if len({(one.operation, one.where) for _, one in some}) > 1:
            return []
        if len(kinds) > 1:
            return some if some[0][1].operation in EQUAL and not kinds <= before else []
        before |= kinds
    return []


def brought(process: Process, where: Place | None) -> str:
    """The shape of its newest collective, if it was called at this line."""
    newest = process.collectives[-1] if process.collectives else None
    if newest is None or newest.where is None or where is None or newest.where.line != where.line:
        return ""
    return shape(newest.sizes)


def shape(sizes: list[list[int]]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else str(sizes)


def least(had: list[Had]) -> Had:
    """Who brought fewest: mostly the one whose data differ."""
    return min(had, key=lambda one: prod(int(size) for size in re.findall(r"\d+", one.what)))


def _elements(one: Collective) -> int:
    """Two shapes of the same number of elements are the same to a collective."""
    return sum(prod(shape) for shape in one.sizes)
