"""After a resume every later epoch is as short as the rest of the interrupted one.

## What it looks at
When a saved state was loaded into a loader, how many batches the pass after it brought and how many the passes after
that; the length that the loader announces, or that an epoch had before; and the numbers among the dataset's
attributes.

## Why it happens
The first epoch after a resume has only what is left of the interrupted one. That is right. But where the position that
was loaded stays in the dataset (or in the sampler), and every `__iter__` starts from it, all later epochs begin there
too: the samples before it are never seen again. With StatefulDataLoader that happens to a dataset which sets its
position in `load_state_dict` and does not take it back, in the main process or in persistent workers.

## What to do
Use the loaded position once: take it and set it to zero when `__iter__` begins. With workers, so does
`persistent_workers=False`, because new workers get a fresh copy.

## How sure it is
Sure of the numbers. It speaks when at least one whole epoch after the first is no longer than that rest, and the loader
announces, or brought before, more than that; of an iterable dataset only when one of its numbers is, at the beginning
of later passes, still as many samples as are missing. A position that is kept in another way is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.passes import crews, each_once, spare, states
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Pass
from ...evidence.process import Process
from ...wording.text import duration, many, percent, short
from ..rule import rule


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("iterable-length-lies",))
def check(case: Case) -> Iterator[Finding]:
    yield from each_once(_judge(case, main, loader) for main, loader in case.training_loaders)


def _judge(case: Case, main: Process, loader: Loader) -> Finding | None:
    rest, later = _since_resume(loader)
    whole = _whole(loader)
    if rest is None or not later or whole is None:
        return None
    longest = max(one.batches for one in later)
    if longest > rest.batches + spare(loader) or longest >= whole - spare(loader):
        return None
    missed = whole - longest
    position, value = _position(case, main, loader, missed)
    if loader.iterable and not position:
        return None  # it may be that epochs are always that short: then the length is not true
    return case.finding(
        main,
        cause=f"Since {loader.name} was resumed, every epoch has only {many(longest, 'batch')} of {whole:,}, "
        f"the rest of the interrupted one: {many(missed, 'batch')} ({percent(missed / whole)}) are never seen again.",
        seen=[
            *_seen(loader, rest, later, whole),
            *([f"the dataset still had {position}={value} when the newest pass began"] if position else []),
        ],
        remedy=_remedy(loader, position),
        onset_s=later[0].at,
        where=loader.reads_at if is_users(loader.reads_at) else loader.created,
        subject=Subject("loader", loader.name),
    )


def _since_resume(loader: Loader) -> tuple[Pass | None, list[Pass]]:
    """The pass that went on with the interrupted epoch, and those after it. Only if it came to its own end."""
    if not loader.resumed:
        return None, []
    after = [one for one in loader.ended if one.at >= loader.resumed[-1]]
    return (after[0], after[1:]) if after else (None, [])


def _whole(loader: Loader) -> int | None:
    """Batches of a whole epoch: as announced, or as it was before the resume."""
    before = [one.batches for one in loader.ended if one.at < loader.resumed[-1]] if loader.resumed else []
    known = [*before, *([loader.length] if loader.length else [])]
    return max(known, default=None)


def _seen(loader: Loader, rest: Pass, later: list[Pass], whole: int) -> Iterator[str]:
    yield f"a saved state was loaded after {duration(loader.resumed[-1])}"
    yield f"the pass after that brought {many(rest.batches, 'batch')}: what was left of the interrupted epoch"
    ends = ", ".join(f"{one.batches:,}" for one in later[:6])
    yield f"the {many(len(later), 'pass')} after it: {ends}{' …' if len(later) > 6 else ''}"
    yield f"a whole epoch is {many(whole, 'batch')}" + (", as the loader announces" if whole == loader.length else "")


def _position(case: Case, main: Process, loader: Loader, missed: int) -> tuple[str, int]:
    """The number of the dataset that says, at the beginning of the newest pass, where the interrupted epoch was."""
    workers = [one for crew in crews(case, main, loader)[-1:] for one in crew[:1]]
    known = states(workers[0]) if workers else loader.states
    a_batch = loader.batch_size or 1
    passed = missed * a_batch / max(loader.num_workers, 1)
    numbers = known[-1].numbers if known else {}
    return next((one for one in numbers.items() if one[1] > 0 and abs(one[1] - passed) <= a_batch), ("", 0))


def _remedy(loader: Loader, position: str) -> Remedy:
    place = f" ({short(loader.reads_at)})" if is_users(loader.reads_at) else ""
    what = "__iter__" if loader.iterable else "__iter__ of the sampler"
    name = f"self.{position or 'position'}"
    text = f"Let {what}{place} use the loaded position once: `start, {name} = {name}, 0`, then go on from `start`"
    text += "." if position else ", by whatever name it is kept."
    if loader.num_workers and loader.persistent_workers:
        text += " Or pass persistent_workers=False: new workers start each epoch with a fresh copy of the dataset."
    return Remedy(text)
