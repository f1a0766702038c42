"""Where the ranks' sequences of collectives part, and which ranks called one with other sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from ..evidence.basics import Place
from ..evidence.distributed import Collective
from ..evidence.process import Failure, Process
from .case import Case, once
from .ranks import Stand, traced, waiting

# Where the ranks' sequences of collectives part, by torch's Flight Recorder.
#
# Collectives pair by their order and by nothing else. One that a single rank calls too many, or too few, is paired with
# whatever the others call next; from there on every pair is shifted, until one does not fit.
# Collectives that need the same sizes on all ranks; others, such as scatter, do not.
SAME_SIZES = ("all_reduce", "allreduce", "broadcast", "barrier")
BLOCK = 64  # collectives in a row that one rank alone may have called: a whole validation with a gather for each batch
INSIDE_DDP = ("backward", "__call__", "_wrapped_call_impl", "_call_impl", "forward")


class Parting(NamedTuple):
    """Calls that some ranks made and the others did not."""

    extra: list[Collective]  # in order, of the first of `ranks`
    ranks: list[int]  # that called them
    others: list[int]  # that did not
    instead: Collective | None  # what the first of the others called at that place; None: nothing, or it is not known
    pairs: int = 0  # of calls after these that agree, once they are left out

    @property
    def first(self) -> Collective:
        return self.extra[0]


class Traces(NamedTuple):
    """Of the default group: each rank's calls by sequence number, from the first that all of them still have."""

    by_rank: dict[int, dict[int, Collective]]
    first: int
    last: int  # of the rank that came furthest
    batches: dict[int, int]  # that each rank has trained on
    died: set[int]  # ranks that crashed in a collective: an error, too, makes it count as finished

    def waits(self, rank: int, number: int) -> bool:
        call = self.at(rank, number)
        return call is not None and (not call.finished or rank in self.died)

    def at(self, rank: int, number: int) -> Collective | None:
        return self.by_rank[rank].get(number)

    def numbers(self) -> list[int]:
        """Those that any rank has called, from the first on that all may know of."""
        return sorted({one for calls in self.by_rank.values() for one in calls if self.first <= one <= self.last})

    def calls(self, rank: int, begin: int) -> list[Collective]:
        return [one for number, one in sorted(self.by_rank[rank].items()) if number >= begin]


def parted(stands: list[Stand]) -> Parting | None:
    """The first calls that only some ranks made. None: as far as is known, all called the same."""
    told = traces(stands)
    number = None if told is None else _first_misfit(told)
    if told is None or number is None or _one_call(told, number):
        return None
    since = _shifted_since(told, number)
    for start in (one for one in told.numbers() if since <= one <= number):
        options = list(_options(told, start))
        if options and (start == number or options[0].pairs):
            return options[0]
    return None


def traces(stands: list[Stand]) -> Traces | None:
    """None: fewer than two ranks have told theirs."""
    found = {one.rank: _by_sequence(one) for one in stands}
    found = {rank: calls for rank, calls in found.items() if calls}
    if len(found) < 2:
        return None
    died = {one.rank for one in stands if one.waits and one.death is not None}
    return Traces(found, max(map(min, found.values())), max(map(max, found.values())), trained(stands), died)


def trained(stands: list[Stand]) -> dict[int, int]:
    """Batches that each rank has trained on."""
    return {
        one.rank: sum(loader.batches for loader in one.process.loaders if loader.optimizer_steps)
        for one in stands
        if one.process is not None
    }


def same(one: Collective | None, other: Collective | None) -> bool:
    """The same call: also by the same line."""
    return one is not None and other is not None and fits(one, other) and line_of(one) == line_of(other)


def fits(one: Collective, other: Collective) -> bool:
    """They can be one and the same collective."""
    sized = one.operation in SAME_SIZES
    return one.operation == other.operation and (not sized or one.sizes == other.sizes)


def line_of(one: Collective) -> tuple[str, int] | None:
    return None if one.where is None else (one.where.file, one.where.line)


def _by_sequence(stand: Stand) -> dict[int, Collective]:
    calls = traced(stand.process) if stand.process is not None else []
    return {one.sequence: one for one in calls if not one.group}


def _first_misfit(told: Traces) -> int | None:
    """The first number whose calls cannot be one; or at which a rank waits, and others have called nothing."""
    for number in told.numbers():
        calls = [told.at(rank, number) for rank in told.by_rank]
        made = [one for one in calls if one is not None]
        if any(not fits(made[0], one) for one in made[1:]):
            return number
        if len(made) < len(calls) and any(told.waits(rank, number) for rank in told.by_rank):
            return number
    return None


def _one_call(told: Traces, number: int) -> bool:
    """All ranks made it, at one and the same line: only its sizes differ, which is another mistake."""
    calls = [told.at(rank, number) for rank in told.by_rank]
    made = {(line_of(one), one.operation) for one in calls if one is not None}
    return None not in calls and len(made) == 1


def _shifted_since(told: Traces, number: int) -> int:
    """Back over pairs that fit, but were called at different lines."""
    for before in reversed([one for one in told.numbers() if one < number]):
        if _agree(told, before):
            break
        number = before
    return number


def _agree(told: Traces, number: int) -> bool:
    calls = [told.at(rank, number) for rank in told.by_rank]
    return all(same(calls[0], one) for one in calls[1:])


def _options(told: Traces, start: int) -> Iterator[Parting]:
    """Split the ranks by what they called at this number; either side's call may be too many. The likelier first."""
    sides = _sides(told, start)
    if len(sides) != 2:
        return
    one, other = sides
    both = [_left_out(told, mine, theirs, start) for mine, theirs in ((one, other), (other, one))]
    yield from sorted((found for found in both if found is not None), key=lambda found: _likely(told, found))


def _likely(told: Traces, found: Parting) -> tuple[bool, bool, int, bool, int, int]:
    """How little speaks for it. Best is that all agrees once the calls are left out; then, that only they call it.

    Where nothing tells the sides apart: the side with a call too many has come less far; what DDP calls by itself, or
    most ranks call, is no mistake.
    """
    known = any(line_of(one) == line_of(found.first) for rank in found.others for one in told.by_rank[rank].values())
    ahead = told.batches.get(found.ranks[0], 0) - told.batches.get(found.others[0], 0)
    inside = found.first.calls in INSIDE_DDP
    return not found.pairs, known, ahead, inside, len(found.ranks) - len(found.others), found.ranks[0]


def _sides(told: Traces, number: int) -> list[list[int]]:
    """Ranks that called the same."""
    sides: list[list[int]] = []
    for rank in told.by_rank:
        call = told.at(rank, number)
        side = next((one for one in sides if _alike(told.at(one[0], number), call)), None)
        if side is None:
            sides.append([rank])
        else:
            side.append(rank)
    return sides


def _alike(one: Collective | None, other: Collective | None) -> bool:
    return one is other or same(one, other)


def _left_out(told: Traces, mine: list[int], theirs: list[int], start: int) -> Parting | None:
    """As if the first calls of one side from here on were too many: as few as make the rest agree."""
    calls, rest = told.calls(mine[0], start), told.calls(theirs[0], start)
    if not calls:
        return None
    instead = rest[0] if rest else None
    for length in range(1, min(len(calls) - 1, BLOCK) + 1):
        shifted = list(zip(calls[length:], rest, strict=False))
        if shifted and all(same(one, other) for one, other in shifted):
            return Parting(calls[:length], mine, theirs, instead, len(shifted))
    return Parting(_alone(told, calls, theirs), mine, theirs, instead)


def _alone(told: Traces, calls: list[Collective], theirs: list[int]) -> list[Collective]:
    """The first call, and those after it that the other side never makes either."""
    lines = {line_of(one) for rank in theirs for one in told.by_rank[rank].values()}
    found = calls[:1]
    for one in calls[1:BLOCK]:
        if line_of(one) in lines:
            break
        found.append(one)
    return found


# Ranks that called the same collective with different sizes: what each of them had, as torch or its recorder says.
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
    """What a rank called the collective with."""

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


@once
def differing(case: Case) -> list[tuple[Process, Collective]]:
    """The first collective that ranks called with different sizes, and the size of each.

    Where operations or lines differ, a rank has left one out or called one too many. So it has if both sizes are those
    of other calls before: a loop over parameters calls the same line with many sizes.
    """
    if len({one.where for one in waiting(case) if one.where is not None}) > 1:
        return []
    calls: dict[tuple[str, int], list[tuple[Process, Collective]]] = {}
    for rank in case.ranks:
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
    """The rank with the smallest size: mostly the one whose data differ."""
    return min(had, key=lambda one: prod(int(size) for size in re.findall(r"\d+", one.what)))


def _elements(one: Collective) -> int:
    """Two shapes of the same number of elements are the same to a collective."""
    return sum(prod(shape) for shape in one.sizes)
