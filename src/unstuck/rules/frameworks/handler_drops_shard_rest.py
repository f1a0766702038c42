"""A shard could not be read to its end, its handler said "continue", and the rest of the shard is left out in silence.

## What it looks at
Every error that a handler of webdataset's was asked about while an archive was read: which shard, after how many
samples, which handler, what it said, how long it slept. And how many samples the shard gave in all, beside those that
the other shards of the list gave.

## Why it happens
A tar archive is read as a stream. Where it is cut off or damaged, nothing after that place can be found again, so
`handler=wds.warn_and_continue` or `ignore_and_continue` does not leave out one sample, as its name suggests, but
everything that would have followed in this shard, in every epoch. `…_and_stop` may end the whole list there. The last
sample before the damage may come without some of its parts.

## What to do
Check the shard and fetch it again. Keep the handler for `decode` and `map`, where it does leave out single samples, and
let reading raise. If losses are to be accepted, count them, and stop above a limit.

## How sure it is
Certain that reading ended there and that the handler went on. How much is lost is an estimate: the most samples that
another shard of the list gave, less what this one gave. Where the training ended or hangs for a reason that these
errors do not explain, it is silent, and so it is about one bad shard in a thousand.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.shards import Met, Trouble, by_path, of_list, same, swallowed, trouble, usual
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import quoted
from ...wording.text import duration, many, percent, short, who
from ..rule import Level, rule

FEW = 0.001  # of the shards: who reads thousands and tells a handler to go on has decided so
LAST = 1  # samples that still come after the error: the one before is handed on when the next is looked for
SHOWN = 4
SLEPT = 1.0  # seconds of sleeping in handlers that are worth a line


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.CAUSE,
    outranks=("iterable-length-lies", "straggler-rank", "uneven-file-assignment", "worker-finished-early"),
)
def check(case: Case) -> Iterator[Finding]:
    met = [one for one in swallowed(case) if _is_lost(one)]
    for first in met[:1]:
        own = [one for one in met if same(one.shards, first.shards)]
        came_of_it = trouble(case, own)
        if isinstance(came_of_it, bool) or (came_of_it is None and len(by_path(own)) < FEW * _opened(case, first)):
            return
        yield _finding(case, own, came_of_it)


def _is_lost(one: Met) -> bool:
    gave = one.error.gave
    return one.error.rest_lost and (gave is None or gave <= one.error.before + LAST)


def _opened(case: Case, one: Met) -> int:
    opened = sum(each.opened for each in of_list(case, one.shards))
    return min(opened, one.shards.total or opened)


def _finding(case: Case, met: list[Met], came_of_it: Trouble | None) -> Finding:
    first, shards = met[0], by_path(met)
    error = first.error
    lost = [_lost(case, own[0]) for own in shards.values()]
    each = f"{error.path.rpartition('/')[2]} could not be read to its end ({error.type}: {error.message})"
    if len(shards) > 1:
        each = f"{len(shards)} of {_opened(case, first):,} shards could not be read to their end, {each[:-1]})"
    amount = f", about {many(sum(lost), 'sample')}{_share(case, first, lost)}" if all(lost) else ""
    then = f"; {came_of_it.text}" if came_of_it is not None else ""
    stops = ", and every shard after it" if error.list_lost else ""
    return case.finding(
        first.process,
        cause=f"{each}, and {error.handler} went on: the rest of {'it' if len(shards) == 1 else 'them'}{stops} is left "
        f"out in silence{amount}{then}.",
        seen=list(_seen(case, met)),
        remedy=_remedy(met),
        onset_s=error.at,
        where=first.shards.where or (first.loader.created if first.loader is not None else None),
        subject=Subject("shard", error.path),
        symptom=(came_of_it.symptom if came_of_it is not None else Symptom.WRONG).value,
    )


def _lost(case: Case, one: Met) -> int:
    """Of one shard, in one pass. 0: it is not known."""
    gave = one.error.gave if one.error.gave is not None else one.error.before
    return max(max(usual(case, one.shards), one.error.usual) - gave, 0)


def _share(case: Case, first: Met, lost: list[int]) -> str:
    """Of all samples that one pass over the list would have."""
    whole = usual(case, first.shards) * (first.shards.total or 0)
    if not whole or first.shards.resampled:
        return ""
    return f" in every epoch, {percent(sum(lost) / whole)} of all"


def _seen(case: Case, met: list[Met]) -> Iterator[str]:
    for path, own in list(by_path(met).items())[:SHOWN]:
        one = own[0]
        gave = one.error.gave if one.error.gave is not None else one.error.before
        full = usual(case, one.shards)
        other = f" (other shards give up to {full:,})" if full else ""
        times = f"; met {len(own)} times" if len(own) > 1 else ""
        yield f"{path}: {one.error.type}: {one.error.message}, after {many(gave, 'sample')}{other}{times}"
    first = met[0]
    made = f" of the dataset made at {short(first.shards.where)}" if first.shards.where is not None else ""
    yield f"handler={first.error.handler}{made}; {who(first.process)} met it first"
    slept = sum(one.error.slept for one in met)
    if slept >= SLEPT:
        yield f"handlers took {duration(slept)} over these errors, during which nothing was loaded"


def _remedy(met: list[Met]) -> Remedy:
    paths = list(by_path(met))
    local = [one for one in paths if one.startswith("/")]
    made = f" at {short(met[0].shards.where)}" if met[0].shards.where is not None else ""
    files = "this shard" if len(paths) == 1 else f"these {len(paths)} shards"
    return Remedy(
        f"Fetch or write {files} again. Then let reading raise and give the handler only to the stages that work on "
        f"single samples: leave it out of wds.WebDataset(…) or wds.tarfile_to_samples(…){made}, and write "
        "`decode(handler=wds.warn_and_continue)`, `map(f, handler=wds.warn_and_continue)`. If some losses are "
        "acceptable, use a handler of your own that counts them and raises above a limit.",
        [f"tar -tf {quoted(one)} > /dev/null" for one in local[:SHOWN]],
    )
