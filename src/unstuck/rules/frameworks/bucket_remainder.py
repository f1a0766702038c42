"""The bucket batches do not divide over the ranks, so some ranks get one batch more than others.

## It means
Each bucket is cut into batches on its own and mostly ends with one that is not full. So the number of batches X
changes with every picture that is added, and the number of ranks Y rarely divides it. accelerate's `even_batches` and
torch's DistributedSampler repeat some batches then, which does no harm in training. With `even_batches=False`, or with
slicing of your own (`batch_indices[rank::world]`, or files that are split before they are sorted), some ranks get one
batch more: DistributedDataParallel blocks in its backward forever, or crashes when the shorter rank leaves.

## Fix
Make X a multiple of Y at the end of the set-up, after shuffling and before ranks take their slice, the same on all
ranks. Repeat the first batches, so no picture is lost:

```python
# before
random.Random(seed).shuffle(self.batch_indices)

# after
random.Random(seed).shuffle(self.batch_indices)  # the same seed on every rank
self.batch_indices += self.batch_indices[: -len(self.batch_indices) % world_size]
```

or drop the rest:

```python
del self.batch_indices[len(self.batch_indices) // world_size * world_size :]
```

With accelerate, remove `even_batches=False`. Where each rank sorts files of its own, sort all files on every rank and
slice the batches instead.

## Check it yourself

```python
print(len(dataset.batch_indices), "batches,", dist.get_world_size(), "ranks")
print("rank", dist.get_rank(), "gets", sum(1 for _ in loader))
```

The second line has to print the same number on every rank.

## Not this, if
- no dataset makes batches out of buckets: [ddp-uneven-batches](ddp-uneven-batches.md)
- accelerate splits a batch sampler: [accelerate-uneven-batch-sampler](accelerate-uneven-batch-sampler.md)
- ranks read different files and never share a list: [uneven-file-assignment](uneven-file-assignment.md)

## How sure
Judged from the buckets (ai-toolkit's `setup_buckets` and `batch_indices`, sd-scripts' `make_buckets` and
`buckets_indices`, their forks by the shape of the class, or `unstuck.note("BUCKETS", …)`), the number of ranks, the
batches that each rank got, and which rank waits for which. Certain where a rank waits with a batch that another never
had and the numbers of the buckets explain it. While the run goes on, different lengths of the loaders are a warning.
Silent where batches are repeated, where Y divides X, and inside `Join`.

## Seen in
- https://github.com/bghira/SimpleTuner/pull/204: training hung at the end of an epoch until buckets were trimmed
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.ranks import told
from ...analysis.shares import Apart, Share, lengths_apart, uneven
from ...evidence.distributed import Prepared
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Buckets, Loader
from ...evidence.process import Process
from ...wording.text import many
from ..rule import Level, rule

SHOWN = 6  # buckets that are named


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.CAUSE,
    outranks=("uneven-file-assignment",),
    predicts=True,
)
def check(case: Case) -> Iterator[Finding]:
    apart = uneven(case)
    if apart is not None:
        shares = [apart.one, *apart.behind]
        found = dealt(shares)
        if found is not None and _explained(found, apart):
            yield _stuck(case, found, apart)
        return
    for shares in lengths_apart(case):
        found = dealt(shares)
        lengths = [one.loader.length for one in shares]
        if found is not None and found.explains(lengths[0] or 0, lengths[-1] or 0, lengths):
            yield _will_be(case, found, shares)
            return


def _explained(found: Dealt, apart: Apart) -> bool:
    loader = apart.one.loader
    lengths = [one.loader.length for one in (apart.one, *apart.behind)]
    each = [one.loader.pass_batches for one in apart.behind if one.loader.passes == loader.passes]
    return found.explains(loader.pass_batches, max(each, default=loader.pass_batches + 1), lengths)


def _stuck(case: Case, found: Dealt, apart: Apart) -> Finding:
    one, first = apart.one, apart.first
    died = all(each.stand.death is not None for each in apart.behind)
    remedy, *others = _remedies(found, one)
    return case.finding(
        one.stand,
        cause=_deadlock(found, f"rank {first.rank}", f"rank {one.rank}", died),
        seen=[_had([one, *apart.behind]), *told(apart.stands), *_seen(found)],
        remedy=remedy,
        alternatives=others,
        rank=one.rank,
        onset_s=one.newest.ended if one.newest is not None else None,
        where=found.buckets[0].where or one.loader.created,
        subject=Subject("loader", one.loader.name),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _deadlock(found: Dealt, waits: str, lacks: str, died: bool) -> str:
    what = "Crash" if died else "Deadlock"
    if found.own:
        then = "crashed" if died else "waits forever"
        return f"{what}: each rank makes its own batches ({_each(found)}), so {waits} {then}."
    waited = "waited" if died else "waits"
    uneven = f"{many(found.total, 'batch')} do not divide over {found.ranks} ranks"
    return f"{what}: {uneven}, so {waits} {waited} for a batch that {lacks} lacks."


def _each(found: Dealt) -> str:
    """`5 on rank 0, 4 on rank 1`: the first rank with most and the first with fewest."""
    ranks = sorted(found.batches, key=lambda rank: (-found.batches[rank], rank))
    least = min(ranks, key=lambda rank: (found.batches[rank], rank))
    return f"{found.batches[ranks[0]]:,} on rank {ranks[0]}, {found.batches[least]:,} on rank {least}"


def _will_be(case: Case, found: Dealt, shares: list[Share]) -> Finding:
    first = shares[0]
    cause = (
        f"Each rank makes its own batches ({_each(found)}), so the ranks will deadlock at the end of the epoch."
        if found.own
        else f"{many(found.total, 'batch')} do not divide over {found.ranks} ranks: rank {first.rank} will run out "
        "first and the rest will deadlock."
    )
    lengths = ", ".join(f"{one.loader.length or 0:,} on rank {one.rank}" for one in shares[:4])
    remedy, *others = _remedies(found, first)
    return case.finding(
        first.stand,
        cause=cause,
        seen=[
            f"len(loader): {lengths}; only a loop that stops every rank earlier is safe",
            *_seen(found),
            _had(shares),
        ],
        remedy=remedy,
        alternatives=others,
        rank=first.rank,
        where=found.buckets[0].where or first.loader.created,
        subject=Subject("loader", first.loader.name),
        symptom=Symptom.WRONG.value,
    )


def _had(shares: list[Share]) -> str:
    several = any(one.loader.passes > 1 for one in shares)
    counts = [(one.loader.batches if several else one.loader.pass_batches, one.rank) for one in shares[:4]]
    had = ", ".join(f"{count:,} on rank {rank}" for count, rank in counts)
    return f"batches from {shares[0].loader.name} {'in all epochs' if several else 'in this epoch'}: {had}"


def _seen(found: Dealt) -> Iterator[str]:
    for buckets in found.buckets[:2]:
        name = buckets.dataset.rpartition(".")[2] or "the dataset"
        whose = name + (" (unstuck.note)" if buckets.told else "")
        whose = f"{whose} on rank {min(found.batches)}" if found.cut else whose
        sizes = ", ".join(f"{bucket}: {count:,}" for bucket, count in list(buckets.files.items())[:SHOWN])
        more = f" and {buckets.count - SHOWN} more" if buckets.count > SHOWN else ""
        size = f" of up to {buckets.batch_size}" if buckets.batch_size else ""
        of = f"{many(buckets.total_files, 'file')} in {many(buckets.count, 'bucket')}: {sizes}{more}"
        yield f"{whose}: {many(buckets.batches or 0, 'batch')}{size}{f' ({of})' if sizes else ''}"
        if buckets.partial:
            yield f"{many(buckets.partial, 'batch')} not full: a bucket ends there"
    if not found.own:
        yield f"{found.total:,} = {found.ranks} ranks × {found.total // found.ranks:,} + {found.remainder}"


def _remedies(found: Dealt, one: Share) -> list[Remedy]:
    prepared = next((each for each in one.process.prepared if each.loader == one.loader.number), None)
    ranks, first = found.ranks, found.buckets[0]
    if prepared is not None and _uneven_by_choice(prepared):
        repeated = many(-found.total % ranks, "batch")
        return [
            Remedy(
                f"Remove even_batches=False: accelerate then repeats {repeated}, and every rank gets the same number."
            )
        ]
    whole = found.own or not found.cut  # else the attribute has only the rank's part
    index = f"self.{first.index}" if first.index and whole else "batches"
    drop = f"del {index}[len({index}) // {ranks} * {ranks} :]"
    if found.own:
        return [
            Remedy(
                "Sort all files into buckets on every rank, with the same seed, and slice the batches instead of the "
                "files:",
                code=[drop, f"{index} = {index}[rank::{ranks}]"],
            )
        ]
    more = -found.total % ranks
    repeat = f"{index} += {index}[: -len({index}) % {ranks}]" if more <= found.total else f"{index} *= {ranks}"
    remedies = [
        Remedy(
            f"Repeat batches up to a multiple of {ranks}, after shuffling with one seed for all ranks, before ranks "
            "take their slice:",
            code=[repeat],
        )
    ]
    if found.total > ranks:
        remedies.append(
            Remedy(f"Drop the remainder at the same place ({many(found.remainder, 'batch')}):", code=[drop])
        )
    return remedies


def _uneven_by_choice(prepared: Prepared) -> bool:
    after = prepared.after
    evens = prepared.even_batches if after is None or after.even_batches is None else after.even_batches
    return evens is False


class Dealt(NamedTuple):
    """The batches of one loader's buckets, and how the ranks' shares of them come out."""

    buckets: list[Buckets]  # of one rank: one for each dataset that its loader reads
    batches: dict[int, int]  # by rank, what each lists
    ranks: int
    alike: bool  # all ranks have sorted the same files into their buckets

    @property
    def cut(self) -> bool:
        """Every rank's list has its own part only; else all list the same, and the loader or sampler takes a part."""
        return len(set(self.batches.values())) > 1

    @property
    def own(self) -> bool:
        """Every rank has sorted files of its own into buckets."""
        return self.cut and not self.alike

    @property
    def total(self) -> int:
        return sum(self.batches.values()) if self.cut else next(iter(self.batches.values()))

    @property
    def remainder(self) -> int:
        return self.total % self.ranks

    def explains(self, least: int, most: int, lengths: list[int | None]) -> bool:
        """Whether the remainder explains that one rank had only `least` batches in an epoch and another `most`."""
        if self.cut:
            return least in self.batches.values() and least < max(self.batches.values())
        known = [one for one in lengths if one is not None]
        shared_out = len(known) < self.ranks or sum(known) == self.total
        return bool(self.remainder) and least * self.ranks < self.total and most <= self.total and shared_out


def buckets_of(process: Process, loader: Loader) -> list[Buckets]:
    """The newest of each dataset that the loader reads; what `unstuck.note` said, where it is the only loader."""
    found = [one for one in process.buckets if one.loader == loader.number and not one.told]
    if found:
        newest = max(one.at for one in found)
        return [one for one in found if one.at == newest]
    told = [one for one in process.buckets if one.told and one.batches is not None]
    used = [one for one in process.loaders if one.passes]
    trains = [one for one in used if one.optimizer_steps] or used
    return told[-1:] if loader in trains and len(trains) == 1 else []


def dealt(shares: list[Share]) -> Dealt | None:
    """None: not all ranks are known to read buckets."""
    known = {one.rank: buckets_of(one.process, one.loader) for one in shares}
    ranks = max((one.process.world or 0 for one in shares), default=0) or len(shares)
    if ranks < 2 or not all(known.values()) or any(each.batches is None for one in known.values() for each in one):
        return None
    batches = {rank: sum(each.batches or 0 for each in one) for rank, one in known.items()}
    files = [[each.files for each in one] for one in known.values()]
    return Dealt(known[min(known)], batches, ranks, alike=all(one == files[0] for one in files))
