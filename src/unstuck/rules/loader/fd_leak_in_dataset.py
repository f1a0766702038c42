"""The dataset opens files and does not close them, until its process may open no more.

## What it looks at
The exception with which descriptors ran out while a sample was fetched or a batch sent, and what the descriptors of
that very process were at that moment: most are files (or sockets, or pipes), and which.

## Why it happens
`__getitem__` opens a file, an archive or a connection for each sample and leaves it open: `open(path)` without `with`,
a lazily read image, a handle that is put into a cache without a limit. Every worker has descriptors of its own, usually
1,024, and runs out of them alone. What then fails is whatever needs the next one: opening a sample, or sending a batch.

## What to do
Close what is opened, best with `with`. Where handles are kept on purpose, keep a bounded number and close the oldest. A
higher limit puts the end off, unless the number of files is bounded and known.

## How sure it is
Sure what the descriptors were spent on: they were counted when there were none left. The line named is the one that
needed one more: where several lines open files, another may be the one that does not close them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import OPENED, Raised, listed, over_time, ran_out, spent_on
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import line, many, said, short, who
from ..rule import Level, rule

SHOWN = 3
EACH = 0.1  # within this much of a whole number a sample, the number is said


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    leaks = [one for one in ran_out(case) if spent_on(one.failure) in OPENED and _fetches(one)]
    for one in sorted(leaks, key=lambda one: not is_users(user_line(one.failure)))[:1]:
        files = _files(case, one)
        yield case.finding(
            one.process,
            cause=_cause(one),
            seen=list(_seen(case, one, files)),
            remedy=_remedy(one),
            onset_s=one.failure.at,
            where=_place(one),
            subject=Subject("file", files[0]) if files else None,
        )


def _fetches(one: Raised) -> bool:
    """The dataset's code runs in that process: it is a worker, or it was at a sample."""
    return one.process.role == "worker" or one.failure.position is not None


def _place(one: Raised) -> Place | None:
    """The user's line that needed one more descriptor; what the dataset does, where that was the sending."""
    place = user_line(one.failure)
    reads = one.loader.reads_at if one.loader is not None else None
    return place if is_users(place) or reads is None else reads


def _files(case: Case, one: Raised) -> list[str]:
    own = case.run.folder
    return [name for name in one.failure.open_files if not (own and name.startswith(own))]


def _samples(one: Raised) -> int:
    return sum(fetching.samples for fetching in one.process.fetching)


def _kind(one: Raised) -> tuple[str, int]:
    kind = spent_on(one.failure) or OPENED[0]
    return kind, one.failure.descriptors[kind]


def _cause(one: Raised) -> str:
    kind, count = _kind(one)
    name = one.loader.dataset.rpartition(".")[2] if one.loader is not None else ""
    owner = f"The dataset {name}" if name else "The dataset"
    samples = _samples(one)
    after = f" after {many(samples, 'sample')}" if samples else ""
    return (
        f"{owner} leaves open what it opens: {many(count, kind)} in {who(one.process)}, which may have "
        f"{one.failure.descriptor_limit:,} descriptors and has none left{after}."
    )


def _seen(case: Case, one: Raised, files: list[str]) -> Iterator[str]:
    place = user_line(one.failure)
    at = f", under {line(place)} in {place.function}" if place is not None and is_users(place) else ""
    yield said(one.failure, 160) + (at or ", while a batch was handed over")
    yield f"open at that moment: {listed(one.failure)}"
    yield from (f"one of them: {name}" for name in files[:SHOWN])
    if one.process is not one.main:
        mains = over_time(case, one.main)
        if mains:
            yield f"{who(one.main)} had {max(count for _, count in mains):,} descriptors at most"
    if one.loader is not None:
        yield f"it fetched for {one.loader.name}"


def _remedy(one: Raised) -> Remedy:
    kind, count = _kind(one)
    samples = _samples(one)
    rate = count / samples if samples else 0.0
    whole = rate > EACH and abs(rate - round(rate)) <= EACH * rate
    each = f" ({many(round(rate), kind)} for each sample)" if whole else ""
    place = _place(one)
    where = f"; it ran out at {short(place)}" if place is not None else ""
    text = (
        f"Close what the dataset opens{each}, best by `with`, once the sample is read{where}. Handles that are kept on "
        "purpose need a limit, with the oldest closed."
    )
    if rate:
        text += f" Raising `ulimit -n` only puts it off: 65,536 would last for {65536 / rate:,.0f} samples a worker."
    return Remedy(text)
