"""Deadlock: all ranks wait in collectives, but not in the same one.

## It means

The ranks took different ways: different numbers of batches, a collective under `if rank == 0:`, a step that one rank
skipped, or collectives of several process groups that are called in a different order. Each rank waits for the others
somewhere else, so none can go on. Stacks show where the ranks ended up, not where they parted.

## Fix

Compare the two lines: which of them should every rank reach, and which rank did not?

```python
# before: deadlock
if rank == 0:
    dist.all_reduce(a, group=first)
    dist.all_reduce(b, group=second)
else:
    dist.all_reduce(b, group=second)
    dist.all_reduce(a, group=first)

# after: the same order on every rank
dist.all_reduce(a, group=first)
dist.all_reduce(b, group=second)
```

Recorded from the start with `unstuck run`, a run shows the first collective that not all ranks called, and how many
batches and steps each rank had.

## Check it yourself

```sh
pgrep -f train.py | xargs -n 1 py-spy dump --pid         # compare the innermost lines of your own code
TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --nproc-per-node 2 train.py     # torch compares every collective
# (not with gloo: torch 2.13 was seen to crash there)
```

## Not this, if

- one rank is in no collective at all: [silent-rank-data-stall](silent-rank-data-stall.md),
  [stuck-in-user-code](stuck-in-user-code.md)
- one rank ran out of data: [ddp-uneven-batches](ddp-uneven-batches.md)
- one call is under a condition on the rank: [rank0-only-collective](rank0-only-collective.md),
  [rank-conditional-eval](rank-conditional-eval.md)
- one rank skipped a step: [rank-local-skip-desync](rank-local-skip-desync.md)

## How sure

Judged from the stacks of all ranks of this machine: in which collective each main thread is, at which line of yours or
of a trainer that was called there, and for how long it has not run. Sure that the ranks wait for each other, and will
forever or until a timeout. Silent while a rank is anywhere else, and where not all ranks of the run can be seen.

## Seen in

- https://github.com/meta-pytorch/torchrec/pull/4149: a deadlock between two process groups in production
- https://github.com/pytorch/pytorch/pull/131895: torch's warning: the same order of collectives on all ranks
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import Stand, listed, stand, unfinished
from ...analysis.stacks import user_frame
from ...analysis.standstill import LONG, standing
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.printable import quoted_line
from ...wording.text import duration, short
from ..rule import Level, rule

TORCH = "/torch/"
Way = tuple[tuple[str, int, str], ...]


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("processes", "stacks"),
    level=Level.ECHO,
    outranks=("collective-timeout", "main-killed", "rank-crash-cascade", "stuck-in-user-code", "uncaught-exception"),
    fallback=True,
)
def check(case: Case) -> Iterator[Finding]:
    stands = stand(case)
    spots = _by_spot(stands)
    if len(spots) < 2 or not _all_there(stands):
        return
    since = min(_still(case, one) for one in stands)
    if since < LONG:
        return
    odd = min(spots.values(), key=lambda ranks: (len(ranks), ranks[0].call == "backward", ranks[0].rank))
    most = max((ranks for ranks in spots.values() if ranks is not odd), key=len)
    remedies = _remedies(case, odd, most)
    seen = [f"{listed(one.rank for one in ranks)}: {_spot(ranks[0])}{_via(ranks[0])}" for ranks in spots.values()]
    yield case.finding(
        odd[0],
        cause=f"Deadlock: {_waits(odd, most)}, {_waits(most, odd, again=True)}.",
        seen=[*seen, f"no progress on any of them for {duration(since)}"],
        remedy=remedies[0],
        alternatives=remedies[1:],
        onset_s=case.stall.since if case.stall is not None else None,
        where=odd[0].where,
    )


def _by_spot(stands: list[Stand]) -> dict[tuple[str, Way], list[Stand]]:
    spots: dict[tuple[str, Way], list[Stand]] = {}
    for one in stands:
        spots.setdefault((_spot(one), _way(one)), []).append(one)
    return spots


def _waits(ranks: list[Stand], others: list[Stand], *, again: bool = False) -> str:
    """Rank 0 waits in all_reduce (train.py:15); the second time without the verb."""
    first, other = ranks[0], others[0]
    waits = "" if again else "waits " if len(ranks) == 1 else "wait "
    spot = f"{first.call}{f' ({short(first.where)})' if first.where is not None else ''}"
    group = " of another group" if again and _group(first) != _group(other) else ""
    via = _via(first) if first.spot == other.spot else ""
    return f"{listed(one.rank for one in ranks)} {waits}in {spot}{via}{group}"


def _group(one: Stand) -> str:
    entry = unfinished(one.process) if one.process is not None else None
    return entry.group if entry is not None else ""


def _remedies(case: Case, odd: list[Stand], most: list[Stand]) -> list[Remedy]:
    ranks = listed(one.rank for one in odd)
    found = []
    if _group(odd[0]) != _group(most[0]):
        found.append(Remedy("Call the collectives of the two process groups in the same order on every rank."))
    reasons = "fewer or more batches, a condition on the rank, or a skipped step"
    found.append(Remedy(f"Find out why {ranks} reached {odd[0].call} without the others: {reasons}."))
    if not case.recording:
        command = f"unstuck run -- {quoted_line(case.run.command) or 'COMMAND'}"
        found.append(Remedy("Record the run from its start, to see where the ranks parted.", [command]))
    return found


def _way(one: Stand) -> Way:
    """From the user's line to torch, through a trainer: it calls many collectives at one line of the user's."""
    if one.stack is None or (one.process is not None and unfinished(one.process) is not None):
        return ()
    calls = one.stack.calls
    own = user_frame(calls)
    inner = calls if own is None else calls[: calls.index(own)]
    return tuple((frame.file, frame.line, frame.function) for frame in inner if TORCH not in frame.file)


def _via(one: Stand) -> str:
    way = _way(one)
    return f", in {way[0][2]}" if way else ""


def _spot(one: Stand) -> str:
    """With the number in its group's sequence, where that is recorded: one line may be called for several groups."""
    entry = unfinished(one.process) if one.process is not None else None
    if entry is None:
        return one.spot
    group = f"group {entry.group.partition('/')[0]}" if entry.group else "all ranks"
    return f"{one.spot}, collective {entry.sequence:,} of {group}"


def _all_there(stands: list[Stand]) -> bool:
    """Every rank of the run is seen, and waits."""
    worlds = {one.seen.world for one in stands if one.seen is not None and one.seen.world}
    return all(one.waits and one.seen is not None for one in stands) and worlds <= {len(stands)}


def _still(case: Case, one: Stand) -> float:
    return standing(case, one.seen, one.stack) if one.seen is not None and one.stack is not None else 0.0
