"""Every batch takes as long as the first: what looks like a warm-up is the loader's own speed.

## What it looks at
How long the first batch was waited for and how long those after it; for a generator that is no DataLoader, the time
between optimizer steps and how much of it went into reading and tokenising. Then what a batch costs: documents, tokens,
seconds inside the tokenizer and the reader.

## Why it happens
The first batch of a run may take long for good reasons, and people wait for it to pass. It does not pass where reading
and tokenising cost more than training with every batch: one thread, one document at a time, slow storage, documents
that are far shorter than a batch needs.

## What to do
What the evidence of this run points at: tokenise beforehand, in batches or in more threads, in workers beside the
training, or bring the data nearer.

## How sure it is
Certain of the seconds. It speaks from three batches and five seconds on, when those after the first take at least half
a second and, times the workers that load at once, at least half as long as it, and most of the loop is spent waiting.
From ten batches and five seconds on, a DataLoader is left to dataloader-bound. Time in which the run was ready and
other programs had the CPU cores is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...analysis.cpu_contention import fair_first
from ...analysis.first_batch import Feeding, First, first_batch, so_far
from ...analysis.loading import waiting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, Source
from ...evidence.process import Process
from ...wording.text import duration, line, many, percent, short, who
from ..rule import Level, rule

OTHERS = 2  # batches after the first
SECONDS = 5.0  # in all
EACH = 0.5  # seconds a batch: less is a matter of shares, and dataloader-bound's
AS_SLOW = 0.5  # of the first: it has a start-up of its own to pay
SHARE = 0.5  # of the loop
BATCHES = 10  # from here on, dataloader-bound speaks
FULL = 0.5  # of a batch's time in one kind of call


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.ECHO,
    outranks=("dataloader-bound",),
    yields_to=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        first = first_batch(case, main)
        if first is None or not _always(first, fair_first(case, main, first)) or _is_for_another(first):
            continue
        source = _most(first.fed)
        loader = first.loader
        where = source.where if source is not None else None
        if where is None and loader is not None:
            where = loader.reads_at if is_users(loader.reads_at) else loader.created
        yield case.finding(
            main,
            cause=_cause(main, first),
            seen=list(_seen(case, main, first)),
            remedy=_remedy(case, main, first),
            where=where,
            subject=Subject("loader", loader.name if loader is not None else "a generator"),
        )


def _always(first: First, fair: First) -> bool:
    """Without the time in which other programs had the CPU cores."""
    if first.later is None or not first.came or first.others < OTHERS or (fair.later or 0.0) < EACH:
        return False
    total = first.seconds + first.later * first.others
    return (fair.each or 0.0) >= AS_SLOW * fair.seconds and fair.later_share >= SHARE and total >= SECONDS


def _is_for_another(first: First) -> bool:
    loader = first.loader
    if loader is None:
        return False
    if first.others < BATCHES:
        return loader.num_workers > 0 and not _is_sure(loader)
    trained = waiting(loader)
    known = loader.optimizer_steps and trained.steps >= BATCHES and trained.looped >= SECONDS
    return bool(known) or not first.fed.sources


def _is_sure(loader: Loader) -> bool:
    """Of workers, some batches come at once: each wait must be known. And there must be a training to hold up."""
    return loader.optimizer_steps > 0 and len(loader.recent_waits) >= OTHERS


def _most(fed: Feeding) -> Source | None:
    return max((*fed.tokenizers, *fed.readers), key=lambda one: one.calls.total, default=None)


def _cause(main: Process, first: First) -> str:
    what = first.loader.name if first.loader is not None else "the generator that the loop reads from"
    whose = f" of {who(main)}" if main.rank is not None else ""
    share = percent(min(first.later_share, 1.0))
    return (
        f"Every batch{whose} takes long, not only the first: {duration(first.seconds)} for that, "
        f"{duration(first.later or 0)} on average for each of the {first.others} after it, {share} of it getting data. "
        f"It is no warm-up: {what} is that slow."
    )


def _seen(case: Case, main: Process, first: First) -> Iterator[str]:
    batches = first.others + 1
    yield f"{many(batches, 'batch')} in {duration(first.seconds + (first.later or 0) * first.others)}"
    if first.loader is not None:
        waited, trained = first.loader.waits.mean, first.loader.bodies.mean
        yield f"a batch is waited for {duration(waited)} and trained on {duration(trained)}"
    if first.fed.sources:
        yield so_far(case, main)
    for one in (*first.fed.readers, *first.fed.tokenizers):
        if one.items:
            yield (
                f"{one.name} at {line(one.where) or 'a line unknown'}: {many(one.calls.count, 'call')}, "
                f"{duration(one.calls.total)} in all, {duration(one.calls.total / batches)} for each batch"
            )


def _remedy(case: Case, main: Process, first: First) -> Remedy:
    host = case.host_of(main)
    cpus = host.cpus if host is not None else 0
    source, batches = _most(first.fed), first.others + 1
    spent = first.seconds + (first.later or 0) * first.others
    if source is None or source.calls.total < FULL * spent:
        place = f" Begin at {short(source.where)}." if source is not None and source.where is not None else ""
        workers = first.loader.num_workers if first.loader is not None else 0
        more = f"more than {many(workers, 'worker')}" if workers else "workers"
        aside = f"Do not wait for it to pass. Prepare samples beforehand, or load them in {more} beside the training."
        return Remedy(aside + place)
    share = percent(min(source.calls.total / spent, 1.0))
    each = duration(source.calls.total / batches)
    begins = (
        f"Do not wait for it to pass. {source.name} at {short(source.where)} takes {share} of the time, {each} a batch"
    )
    if source.kind == "rows":
        return Remedy(f"{begins}: read larger row groups, only the columns that are used, from a nearer disk.")
    beforehand = (
        "tokenise the data once beforehand and read tokens, or tokenise in DataLoader workers beside the training"
    )
    return Remedy(f"{begins}: {_more(source, cpus)}{beforehand}.")


def _more(source: Source, cpus: int) -> str:
    if source.calls.count >= source.items > 1:
        return "hand it documents in batches, "
    if source.threads is not None and source.threads < cpus:
        return f"give it {cpus} threads instead of {source.threads}, "
    return ""
