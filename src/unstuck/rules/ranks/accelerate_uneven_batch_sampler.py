"""accelerate splits the batches unevenly: one rank runs out of data while another waits for it.

## It means

Batches are assigned to the ranks in turn, so a number that the ranks do not divide leaves a remainder. By default
accelerate evens that out by repeating some samples. With `even_batches=False` it does not, and some ranks get one batch
more than the others. It cannot do so either for a batch sampler of your own that has a `batch_size` and yields batches
of other sizes, as a bucket sampler does at the end of every bucket: a smaller batch is taken for the last one, and the
ranks part although their lengths agree. DistributedDataParallel waits in every backward for all ranks, so the rank with
one batch more waits forever, or crashes when the other rank exits. With further epochs its surplus is paired with the
next epoch of the others, and from then on every average of gradients mixes different steps.

## Fix

Let accelerate even out the batches, which is the default:

```python
# before
accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(even_batches=False))

# after
accelerator = Accelerator()
```

A sampler without a fixed batch size can be evened out by accelerate 1.14 or newer; set its `batch_size` to `None` then.
Older versions raise a ValueError for it ("You need to use `even_batches=False` when the batch sampler has no batch
size").

Or let the sampler itself yield a multiple of the number of processes:

```python
def __iter__(self):
    batches = self.make_batches()
    whole = len(batches) // self.processes * self.processes
    yield from batches[:whole]
```

Or let early ranks answer for the others (DDP only):

```python
with accelerator.join_uneven_inputs([model]):
    for batch in loader:
        ...
```

## Check it yourself

```python
print(accelerator.process_index, len(loader))  # after prepare(): has to be the same on every rank
print(len(batch_sampler) % accelerator.num_processes)  # 0 is even
print({len(batch) for batch in batch_sampler})  # more than one size: batch_size must be None
```

## Not this, if

- the loader never went through `prepare()`: [ddp-uneven-batches](ddp-uneven-batches.md),
  [bucket-remainder](bucket-remainder.md)
- the loader has `batch_size=None` and crashes at once:
  [accelerate-batch-sampler-none](accelerate-batch-sampler-none.md)
- one rank skips a batch on its own: [rank-local-skip-desync](rank-local-skip-desync.md)

## How sure

Judged from each loader before and after `prepare` on every rank (the class of the batch sampler inside accelerate's
shard, how many batches it yields, `even_batches`, the length left for each rank), from the batches every rank has had
since, and from where every rank is or how it ended. Certain of the numbers: lengths and batches are counted on each
rank. It names them as the cause only where a rank that has more waits in a collective or has lost its partner, while
one that has fewer is done with its loop. Before that, different lengths are a warning, given during the first epoch of
a loader that a DistributedDataParallel model is trained on: a loop that stops all ranks at the same count avoids the
deadlock. Silent inside `Join`, and once an epoch is over and the run went on. It knows the length of a sampler whose
`__len__` only counts what the sampler holds; for others it waits for the end of an epoch.

## Seen in

- https://github.com/huggingface/accelerate/pull/776: why `even_batches=False` exists, and what it does
- https://github.com/huggingface/accelerate/pull/3969: samplers of varying batch sizes can be evened out since 1.14
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

TEXTS = ("You need to use `even_batches=False` when the batch sampler has no batch size.",)
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
    """A loader whose ranks do not get the same: how many batches each gets in an epoch."""

    parts: list[Part]
    counts: dict[int, int]
    counted: bool  # in an epoch that ended; else as their lengths say

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
    """None: it is even, or it is not known, or it does not matter."""
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
    """Where some rank reached the end of this epoch, and others had more."""
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
    """The run is in its first epoch, and nothing will save it: all ranks train together on every batch of this loader.

    Once an epoch is over and the run went on, its loop copes with it.
    """
    alive = all(one.process.alive and not one.process.failures for one in dealt.parts) and case.stall is None
    first = all(one.loader is not None and one.loader.passes == 1 for one in dealt.parts) and not dealt.counted
    trained = all(one.loader is not None and one.loader.optimizer_steps for one in dealt.parts)
    return alive and first and trained and all(one.process.wrapped for one in dealt.parts)


def _finding(case: Case, dealt: Dealt, held_up: list[Stand]) -> Finding:
    part = dealt.part(dealt.fewest[0])
    loader, remedies = part.loader, _remedies(case, part)
    return case.finding(
        part.process,
        cause=_cause(dealt, held_up),
        seen=list(_seen(dealt, held_up)),
        remedy=remedies[0],
        alternatives=remedies[1:],
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
    fewest, count = dealt.fewest, min(dealt.counts.values())
    less = f"accelerate gave {listed(fewest)} only {many(count, 'batch')}"
    if not held_up:
        most = max(dealt.counts.values())
        return f"The epoch will end in a deadlock: {less}, other ranks {most}."
    first = held_up[0]
    more = f"rank {first.rank} has {dealt.counts[first.rank]}"
    where = first.call or "its own code"
    if first.failed is not None:
        return f"Uneven split: {less}; {more} and crashed in {where} after the other ended."
    return f"Deadlock: {less}; {more} and waits for {'it' if len(fewest) == 1 else 'them'} in {where}."


def _shares(dealt: Dealt) -> str:
    """Rank 0 gets 3, rank 1 gets 2; grouped where there are many."""
    by_count: dict[int, list[int]] = {}
    for rank, count in sorted(dealt.counts.items()):
        by_count.setdefault(count, []).append(rank)
    return ", ".join(f"{listed(ranks)} get{'s' * (len(ranks) == 1)} {count}" for count, ranks in by_count.items())


def _seen(dealt: Dealt, held_up: list[Stand]) -> Iterator[str]:
    prepared = dealt.parts[0].prepared
    after = prepared.after or prepared.before
    even = prepared.even_batches if after.even_batches is None else after.even_batches
    sampler = (after.batch_sampler or "none").removeprefix("__main__.")
    batches = f"{many(after.batches, 'batch')} over {prepared.processes} processes: " if after.batches else ""
    yield f"{batches}{_shares(dealt)}"
    yield f"prepared at {short(prepared.where)}: batch sampler {sampler}, even_batches={even}, on {prepared.device}"
    lengths = ", ".join(f"{one.length} on rank {one.rank}" for one in dealt.parts if one.length is not None)
    if lengths and any(one.length != dealt.counts[one.rank] for one in dealt.parts):
        yield f"len(loader) after prepare: {lengths}"
    yield from told([one for one in held_up if one.failed is None])
    yield from (f"rank {one.rank}: {one.failed.type} in {one.spot}" for one in held_up if one.failed is not None)


def _remedies(case: Case, part: Part) -> list[Remedy]:
    """By default accelerate evens out; what its sampler is decides how to get that back."""
    prepared = part.prepared
    after = prepared.after or prepared.before
    processes, sampler = prepared.processes, (after.batch_sampler or "").rpartition(".")[2]
    sized = after.batch_size is not None and after.batch_sampler != STANDARD
    whole = f"batches = batches[: len(batches) // {processes} * {processes}]"
    multiple = Remedy(f"Let {sampler or 'the sampler'} yield a multiple of {processes} batches.", code=[whole])
    wrapped = "Wrap the loop, so a rank without data still answers the others (DDP only)."
    join = Remedy(wrapped, code=["with accelerator.join_uneven_inputs([model]):"])
    if after.even_batches or (after.even_batches is None and prepared.even_batches):
        unsized = Remedy(
            f"Set batch_size of {sampler} to None: every batch smaller than {after.batch_size} is taken for the last.",
            code=[f"self.batch_size = None  # in {sampler}"],
        )
        older = Remedy(f"Set even_batches=False, and yield a multiple of {processes} batches.", code=[whole])
        return [*case.from_version("accelerate", 1, 14, remedy=unsized), older]
    if sized or after.batches is None:
        return [multiple, join]
    missing = -after.batches % processes
    each = (after.batches + missing) // processes
    again = f"accelerate then repeats {many(missing, 'batch')}, and every rank gets {each}."
    even = Remedy(f"Remove even_batches=False: {again}")
    any_version = after.batch_size is not None
    return [*([even] if any_version else case.from_version("accelerate", 1, 14, remedy=even)), multiple, join]
