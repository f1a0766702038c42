"""accelerate deals the batches out unevenly, so that one rank is done while another waits for it.

## What it looks at
Each loader before and after `prepare`, on every rank: the class of the batch sampler inside accelerate's shard, how
many batches it gives, `even_batches`, and the length that is left for each rank. Then how many batches each rank has
had in the passes since, where every rank stands, and how it ended.

## Why it happens
X batches over Y processes leave a remainder unless Y divides X. By default accelerate evens that out: some batches are
given out twice. With `even_batches=False` it does not, and some ranks get one batch more than the others. Nor can it do
so for a sampler of your own that has a `batch_size` and gives batches of other sizes, as a bucket sampler does at the
end of every bucket: it takes a smaller batch for the last one, and the ranks part although their lengths agree.
DistributedDataParallel waits in every backward for all ranks. The rank with one batch more waits for ever, or fails
when the other rank leaves. With further epochs its surplus is paired with the next epoch of the others, and every
average of gradients from there on mixes different steps.

## What to do
Let every rank have the same number: leave `even_batches` on, make the number of batches a multiple of the number of
processes, or set the sampler's `batch_size` to None, so that accelerate deals out whole batches of any size.

## How sure it is
Certain of the numbers: lengths and batches are counted on each rank. It names them as the cause only where a rank that
has more waits in a collective or has lost its partner, while one that has fewer is done with its loop. Before that,
different lengths are a warning, given during the first pass of a loader that a DistributedDataParallel model is trained
on: a loop that stops all ranks at the same count gets along with them. It is silent inside of `Join`, and once a pass
is over and the run went on. It knows the length of a sampler whose `__len__` only counts what the sampler holds; of
others it waits for the end of a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.collectives import line_of
from ...analysis.ranks import Stand, listed, lost_a_peer, stand, timed_out, told
from ...analysis.shares import Part, is_dispatched, prepared_together
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import LoaderState
from ...wording.text import many, short
from ..rule import rule

JOIN = "Join"  # the span that it is
IN_LOOP = ("backward", "forward")  # calls of a DistributedDataParallel model
STANDARD = "torch.utils.data.sampler.BatchSampler"
OUTRANKED = (
    "collective-shape-mismatch",
    "collective-timeout",
    "collectives-out-of-step",
    "dataloader-bound",
    "ddp-uneven-batches",
    "main-killed",
    "rank-crash-cascade",
    "straggler-rank",
    "stuck-in-user-code",
    "uncaught-exception",
)


class Dealt(NamedTuple):
    """A loader whose ranks do not get the same: how many batches each gets in a pass."""

    parts: list[Part]
    counts: dict[int, int]
    counted: bool  # in a pass that ended; else as their lengths say

    @property
    def fewest(self) -> list[int]:
        return [rank for rank, count in self.counts.items() if count == min(self.counts.values())]

    def part(self, rank: int) -> Part:
        return next(one for one in self.parts if one.rank == rank)


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("recording",), predicts=True)
def check(case: Case) -> Iterator[Finding]:
    for parts in prepared_together(case):
        dealt = _dealt(parts)
        if dealt is None:
            continue
        stands = {one.rank: one for one in stand(case)}
        held_up = [one for rank, one in stands.items() if rank not in dealt.fewest and _held_up(one, dealt, stands)]
        if held_up or _will_be(case, dealt):
            yield _finding(case, dealt, held_up)


def _dealt(parts: list[Part]) -> Dealt | None:
    """None: it is even, or nobody knows, or it does not matter."""
    if any(is_dispatched(one.prepared) or one.prepared.before.iterable or _joins(one) for one in parts):
        return None
    if len({one.prepared.before.batches for one in parts}) > 1:  # each rank has data of its own: it was uneven before
        return None
    passes = set.intersection(*(set(one.had()) for one in parts))
    uneven = [counts for number in sorted(passes, reverse=True) if (counts := _in_pass(parts, number))]
    if uneven:
        return Dealt(parts, uneven[0], counted=True)
    lengths = {one.rank: one.length for one in parts if one.length is not None}
    if len(lengths) < len(parts) or len(set(lengths.values())) == 1:
        return None
    return Dealt(parts, lengths, counted=False)


def _joins(part: Part) -> bool:
    """Inside of Join, ranks may end at different times."""
    return any(span.name == JOIN for span in part.process.spans)


def _in_pass(parts: list[Part], number: int) -> dict[int, int] | None:
    """Where some rank came to the end of this pass, and others had more."""
    had = {one.rank: one.had()[number] for one in parts}
    ends = [one.passed()[number] for one in parts if number in one.passed()]
    if not ends or max(had.values()) <= min(ends):
        return None
    return had if min(had.values()) == min(ends) else None


def _held_up(one: Stand, dealt: Dealt, stands: dict[int, Stand]) -> bool:
    """It waits in its loop, or was ended there, for ranks that have done theirs."""
    lost = lost_a_peer(one.failed) or timed_out(one.failed)
    part = next((each for each in dealt.parts if each.rank == one.rank), None)
    if part is None or part.loader is not part.process.newest_loader or not (lost or (one.waits and not one.failed)):
        return False
    return any(
        _in_loop(one, dealt.part(rank)) and _is_done(stands.get(rank), dealt.part(rank), one) for rank in dealt.fewest
    )


def _in_loop(long: Stand, short: Part) -> bool:
    """In a call that the other one has made as well, batch for batch."""
    known = {line_of(one) for one in short.process.collectives}
    return long.call in IN_LOOP or (long.where is not None and (long.where.file, long.where.line) in known)


def _is_done(short: Stand | None, part: Part, long: Stand) -> bool:
    """It is past its loop: gone in order, or somewhere else than in the line at which the other waits for it."""
    if short is None or part.loader is None or not part.passed():
        return False
    own = short.failed is not None and not (lost_a_peer(short.failed) or timed_out(short.failed))
    at_rest = part.loader.now == LoaderState.BETWEEN_PASSES or short.ended
    return not own and at_rest and (short.ended or short.where != long.where)


def _will_be(case: Case, dealt: Dealt) -> bool:
    """The run is in its first pass, and nothing will save it: all ranks train together on every batch of this loader.

    Once a pass is over and the run went on, its loop gets along with it somehow.
    """
    alive = all(one.process.alive and not one.process.failures for one in dealt.parts) and case.stall is None
    first = all(one.loader is not None and one.loader.passes == 1 for one in dealt.parts) and not dealt.counted
    trained = all(one.loader is not None and one.loader.optimizer_steps for one in dealt.parts)
    return alive and first and trained and all(one.process.wrapped for one in dealt.parts)


def _finding(case: Case, dealt: Dealt, held_up: list[Stand]) -> Finding:
    part = dealt.part(dealt.fewest[0])
    loader = part.loader
    return case.finding(
        part.process,
        cause=_cause(dealt, held_up),
        seen=list(_seen(dealt, held_up)),
        remedy=_remedy(part),
        rank=part.rank,
        onset_s=_onset(case, held_up),
        where=part.prepared.where,
        subject=None if loader is None else Subject("loader", loader.name),
        symptom=_symptom(held_up).value,
    )


def _symptom(held_up: list[Stand]) -> Symptom:
    if not held_up:
        return Symptom.WRONG
    return Symptom.CRASHED if all(one.failed is not None for one in held_up) else Symptom.STUCK


def _onset(case: Case, held_up: list[Stand]) -> float | None:
    if case.stall is not None:
        return case.stall.since
    return min((one.failed.at for one in held_up if one.failed is not None), default=None)


def _cause(dealt: Dealt, held_up: list[Stand]) -> str:
    after = dealt.parts[0].prepared.after
    batches = after.batches if after is not None else None
    what = many(batches, "batch") if batches is not None else "The batches"
    uneven = f"{what} over {dealt.parts[0].prepared.processes} processes: {_shares(dealt)}"
    return f"{uneven}. {_ranks(dealt.fewest)} {_then(held_up, one=len(dealt.fewest) == 1)}."


def _then(held_up: list[Stand], *, one: bool) -> str:
    it = "it" if one else "them"
    if not held_up:
        return f"will be done while the rest waits for {it} in backward"
    first = held_up[0]
    if first.failed is not None:
        return f"{'was' if one else 'were'} done and left, and {listed([first.rank])} failed in {first.spot}"
    return f"{'is' if one else 'are'} done, and {listed([first.rank])} waits for {it} in {first.spot}"


def _ranks(ranks: list[int]) -> str:
    named = listed(ranks)
    return named[:1].upper() + named[1:]


def _shares(dealt: Dealt) -> str:
    """Rank 0 gets 3, rank 1 gets 2; grouped where there are many."""
    by_count: dict[int, list[int]] = {}
    for rank, count in sorted(dealt.counts.items()):
        by_count.setdefault(count, []).append(rank)
    return ", ".join(f"{listed(ranks)} get{'s' * (len(ranks) == 1)} {count}" for count, ranks in by_count.items())


def _seen(dealt: Dealt, held_up: list[Stand]) -> Iterator[str]:
    prepared = dealt.parts[0].prepared
    after = prepared.after or prepared.before
    even = "on" if (prepared.even_batches if after.even_batches is None else after.even_batches) else "off"
    sampler = (after.batch_sampler or "none").removeprefix("__main__.")
    yield f"prepared at {short(prepared.where)}: batch sampler {sampler}, even_batches is {even}, on {prepared.device}"
    lengths = ", ".join(f"{one.length} on rank {one.rank}" for one in dealt.parts if one.length is not None)
    if lengths:
        yield f"lengths after prepare: {lengths}"
    if dealt.counted and any(one.length != dealt.counts[one.rank] for one in dealt.parts):
        yield "batches in the newest pass: " + ", ".join(f"{n} on rank {rank}" for rank, n in dealt.counts.items())
    yield from told([one for one in held_up if one.failed is None])
    yield from (f"rank {one.rank}: {one.failed.type} in {one.spot}" for one in held_up if one.failed is not None)


def _remedy(part: Part) -> Remedy:
    prepared = part.prepared
    after = prepared.after or prepared.before
    processes, sampler = prepared.processes, (after.batch_sampler or "").rpartition(".")[2]
    sized = after.batch_size is not None and after.batch_sampler != STANDARD
    if after.even_batches or (after.even_batches is None and prepared.even_batches):
        return Remedy(
            f"Set batch_size of {sampler} to None: accelerate takes any batch smaller than {after.batch_size} for the "
            f"last one. Without a size it deals out whole batches, and evens out their number."
        )
    if sized or after.batches is None:
        unsized = f", and set batch_size of {sampler} to None" if sized else ""
        return Remedy(f"Make {sampler or 'the sampler'} give a multiple of {processes} batches{unsized}.")
    missing = -after.batches % processes
    each = (after.batches + missing) // processes
    return Remedy(
        f"Remove even_batches=False: by default accelerate gives out {many(missing, 'batch')} twice, so that each of "
        f"the {processes} ranks gets {each}. Or let the sampler give {after.batches - after.batches % processes} or "
        f"{after.batches + missing} batches instead of {after.batches}."
    )
