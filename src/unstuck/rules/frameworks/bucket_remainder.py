"""The batches that a dataset's buckets make cannot be divided by the number of ranks, and nobody evens that out.

## What it looks at
Datasets that sort their files into buckets and make their batches themselves, by the shape of the class (ai-toolkit's
`setup_buckets` and `batch_indices`, sd-scripts' `make_buckets` and `buckets_indices`, and their forks) or by what
`unstuck.note("BUCKETS", …)` said: files in every bucket, batches in all, X. Then the number of ranks, Y, how many
batches each rank has had, and which rank is done while another waits for it.

## Why it happens
Every bucket is cut into batches of its own and mostly ends with one that is not full. So X changes with every picture
that is added, and Y seldom divides it. What happens then depends on who shares the batches out. accelerate's
`even_batches` and torch's DistributedSampler give some of them out twice, which does no harm in training. With
`even_batches=False`, and with sharing of one's own (`batch_indices[rank::world]`, or files that are divided before
they are sorted), some ranks get a batch more than others: DistributedDataParallel waits in its backward for ever, or
dies when the shorter rank leaves.

## What to do
Make X a multiple of Y at the end of the set-up, when the list of batches is made: drop the surplus, or repeat some.
Both must be done before the ranks take their part, and in the same order on all ranks.

## How sure it is
Sure where a rank waits with a batch that another never had, and the numbers of the buckets explain it. While the run
goes on, different lengths of the loaders are a warning. It is silent where batches are given out twice, where
Y divides X, and inside of `Join`.
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
from ...wording.text import many, short
from ..rule import Level, rule

SHOWN = 6  # buckets


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
    waits = f"waited for it in {first.stand.spot}, and died there" if died else f"waits for it in {first.stand.spot}"
    return case.finding(
        one.stand,
        cause=f"{_uneven(found)}. Rank {one.rank} is done after {_had(one)}, rank {first.rank} has more and {waits}.",
        seen=[*_seen(found, [one, *apart.behind]), *told(apart.stands)],
        remedy=_remedy(found, one),
        rank=one.rank,
        onset_s=one.newest.ended if one.newest is not None else None,
        where=found.buckets[0].where or one.loader.created,
        subject=Subject("loader", one.loader.name),
        symptom=(Symptom.CRASHED if died else Symptom.STUCK).value,
    )


def _had(one: Share) -> str:
    each = many(one.loader.pass_batches, "batch") if one.loader.pass_batches else "no batch at all"
    return f"{each} in each of its {one.loader.passes:,} passes" if one.loader.passes > 1 else each


def _will_be(case: Case, found: Dealt, shares: list[Share]) -> Finding:
    first = shares[0]
    return case.finding(
        first.stand,
        cause=f"{_uneven(found)}. Rank {first.rank} will be done after {first.loader.length:,} batches, and the rest "
        "will wait for it in backward, unless all leave the loop before.",
        seen=list(_seen(found, shares)),
        remedy=_remedy(found, first),
        rank=first.rank,
        where=found.buckets[0].where or first.loader.created,
        subject=Subject("loader", first.loader.name),
        symptom=Symptom.WRONG.value,
    )


def _uneven(found: Dealt) -> str:
    if found.own:
        each = ", ".join(f"{count:,} on rank {rank}" for rank, count in sorted(found.batches.items())[:4])
        return f"The buckets of each rank make batches of their own, and not equally many ({each})"
    return (
        f"{many(found.total, 'batch')} over {found.ranks} ranks leave a remainder of {found.remainder}, and nobody "
        "evens it out"
    )


def _seen(found: Dealt, shares: list[Share]) -> Iterator[str]:
    for one in found.buckets[:2]:
        name = one.dataset.rpartition(".")[2]
        whose = f"the buckets of {name or 'the dataset'}" + (" (unstuck.note)" if one.told else "")
        whose = f"on rank {min(found.batches)}, {whose}" if found.cut else whose
        sizes = ", ".join(f"{bucket}: {count:,}" for bucket, count in list(one.files.items())[:SHOWN])
        more = f" and {one.count - SHOWN} more" if one.count > SHOWN else ""
        size = f" of up to {one.batch_size}" if one.batch_size else ""
        files = f" ({many(one.total_files, 'file')} in {many(one.count, 'bucket')}: {sizes}{more})" if sizes else ""
        yield f"{whose} make {many(one.batches or 0, 'batch')}{size}{files}"
        if one.partial:
            yield f"not full, because a bucket ends there: {many(one.partial, 'batch')}"
    if not found.own:
        yield f"{found.total:,} = {found.ranks} * {found.total // found.ranks:,} + {found.remainder}"
    several = any(one.loader.passes > 1 for one in shares)
    counts = [(one.loader.batches if several else one.loader.pass_batches, one.rank) for one in shares[:4]]
    had = ", ".join(f"{count:,} on rank {rank}" for count, rank in counts)
    yield f"batches in {'all passes' if several else 'the newest pass'} over {shares[0].loader.name}: {had}"


def _remedy(found: Dealt, one: Share) -> Remedy:
    prepared = next((each for each in one.process.prepared if each.loader == one.loader.number), None)
    ranks, first = found.ranks, found.buckets[0]
    if prepared is not None and _uneven_by_choice(prepared):
        return Remedy(
            f"Remove even_batches=False: by default accelerate gives out {many(-found.total % ranks, 'batch')} twice, "
            f"so that each of the {ranks} ranks gets {-(-found.total // ranks)}."
        )
    whole = found.own or not found.cut  # else the attribute has only the rank's part
    index = f"self.{first.index}" if first.index and whole else "batches"
    if found.own:
        return Remedy(
            "Sort all files into buckets on every rank, with the same seed, and share out the batches instead of the "
            f"files: `del {index}[len({index}) // {ranks} * {ranks}:]`, then `{index} = {index}[rank::{ranks}]`."
        )
    place = f" ({short(first.where)})" if first.where is not None else ""
    return Remedy(
        f"When the list of batches is made{place}, before ranks take their part, make its length a multiple of "
        f"{ranks}: `del {index}[len({index}) // {ranks} * {ranks}:]` drops {found.remainder}, "
        f"`{index} += {index}[: -len({index}) % {ranks}]` repeats {-found.total % ranks}. Shuffle before that, with "
        "the same seed on all ranks."
    )


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
        """Whether that one rank had only `least` batches in a pass and another `most` is what is left over."""
        if self.cut:
            return least in self.batches.values() and least < max(self.batches.values())
        known = [one for one in lengths if one is not None]
        shared_out = len(known) < self.ranks or sum(known) == self.total
        return bool(self.remainder) and least * self.ranks < self.total and most <= self.total and shared_out


def buckets_of(process: Process, loader: Loader) -> list[Buckets]:
    """The newest of each dataset that the loader reads; what was told of a dataset, where it is the only loader."""
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
