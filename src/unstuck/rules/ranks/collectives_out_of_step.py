"""All ranks wait in collectives, but not in the same one: each waits for the others somewhere else.

## What it looks at
The stacks of all ranks of this machine: in which collective each main thread stands, at which line of the user's or of
a trainer that was called there, and for how long it has not run.

## Why it happens
The ranks took different ways: different numbers of batches, a collective under `if rank == 0:`, a step that one rank
left out, or collectives of several groups that are called in a different order. Stacks show where they ended up, not
where they parted.

## What to do
Compare the two lines: which of them should every rank pass, and which rank did not? Recorded from the beginning with
`unstuck run`, the run shows the first collective that not all ranks called, and how many batches and steps each had.

## How sure it is
Sure that they wait for each other, and will for ever or until a time-out. It stays silent while a rank stands anywhere
else, and where not all ranks of the run can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import Stand, listed, stand, told, unfinished
from ...analysis.stacks import user_frame
from ...analysis.standstill import LONG, standing
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.printable import quoted_line
from ...wording.text import duration
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
    others = [one.rank for one in stands if one not in odd]
    seen = [f"{listed(one.rank for one in ranks)}: {_spot(ranks[0])}{_via(ranks[0])}" for ranks in spots.values()]
    yield case.finding(
        odd[0],
        cause=f"{listed(one.rank for one in odd).capitalize()} and {listed(others)} wait for each other in different "
        f"collectives: {'; '.join(told(stands) if len({one.spot for one in stands}) > 1 else seen)}.",
        seen=[*seen, f"none of them has run for {duration(since)}"],
        remedy=Remedy(
            f"Look for what takes {listed(one.rank for one in odd)} to {odd[0].spot} without the others: fewer or more "
            "batches, a condition on the rank, a skipped step, groups that are used in another order."
            + ("" if case.recording else " To see where the ranks parted, start the run recorded."),
            [] if case.recording else [f"unstuck run -- {quoted_line(case.run.command) or 'COMMAND'}"],
        ),
        onset_s=case.stall.since if case.stall is not None else None,
        where=odd[0].where,
    )


def _by_spot(stands: list[Stand]) -> dict[tuple[str, Way], list[Stand]]:
    spots: dict[tuple[str, Way], list[Stand]] = {}
    for one in stands:
        spots.setdefault((_spot(one), _way(one)), []).append(one)
    return spots


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
