"""Samples wait for what they read: the storage, or the way to it, is the limit of this loader.

## What it looks at
The benchmark of `unstuck doctor`: the loader as it is against the same loader with its samples in memory. A sample
loaded by one thread: how much of its time that thread computes, how many bytes it asks for, and what looks at it find
it waiting for. The same files read plainly, by a program that does nothing else, cold where the page cache can be told
to forget them.

## Why it happens
A network file system at its busy hours, a disk shared by many, many small files with a round trip each, a pipe or a
server that gives no more, reading in small pieces.

## What to do
Copy the data to a local disk and compare; pack small files into shards; try at another hour; read ahead with more
workers, which hides the wait for one file behind others. A larger shuffle buffer does not help: it reads the same bytes
and holds more of them in memory.

## How sure it is
Certain of the seconds and bytes. It speaks where the loader gets faster with its samples in memory, at least half of
what a sample waits for is reading, it waits 10 ms or more, and less than 100 MiB come in a second of that. A thread
that sleeps between pieces of what it reads counts as one that waits for data from 40 ms and 64 KiB a sample on. With
--step-ms it speaks only if the loader is slower than the training.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.trial import STORAGE, Differences, Measured, Trial
from ...wording.printable import quoted
from ...wording.text import duration, many, percent, size
from ..rule import Level, rule
from ._rungs import as_it_is, feeds, loader_of

WAIT = 0.01  # seconds a sample: below that, a few workers hide it
RATE = 100 << 20  # bytes a second of waiting: what a single spinning disk gives; nobody calls more than that slow
KNOWN = 16 << 10  # bytes a sample: less is what we read ourselves; what comes through a socket is not counted
AS_SLOW = 2.0  # times the loader's rate: reading plainly is hardly faster, so the storage is the limit


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.CERTAIN,
    needs=("trial",),
    level=Level.GENERAL,
    yields_to=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    trial = case.trial
    facts = trial.differences if trial is not None else None
    if trial is None or facts is None or trial.limit != STORAGE or not _is_slow(trial, facts):
        return
    own = as_it_is(trial.measured)
    yield case.finding(
        cause=_cause(trial, facts, own),
        seen=[*trial.limit_seen, *_plain(facts)],
        remedy=_remedy(trial, facts),
        where=facts.where,
        subject=Subject("file", facts.paths[0]) if facts.paths else Subject("loader", loader_of(trial).dataset),
    )


def _is_slow(trial: Trial, facts: Differences) -> bool:
    if facts.step is not None:
        return not feeds(trial, facts.step)
    return facts.waited >= WAIT and facts.asked < RATE * facts.waited


def _rate(facts: Differences) -> float:
    return facts.asked / facts.waited if facts.waited else 0.0


def _cause(trial: Trial, facts: Differences, own: Measured | None) -> str:
    dataset = loader_of(trial).dataset or "the dataset"
    speed = f" with {many(own.workers, 'worker')} it gives {own.rate:,.3g} samples a second" if own is not None else ""
    read = f" for {size(facts.asked)}" if facts.asked >= KNOWN else ""
    return (
        f"Reading is the limit: a sample of {dataset} takes {duration(facts.seconds)}, and "
        f"{percent(facts.waited / facts.seconds)} of that it waits{read};{speed}."
    )


def _plain(facts: Differences) -> Iterator[str]:
    if facts.asked >= KNOWN:
        yield f"{size(_rate(facts))} come in a second of waiting"
    plain = facts.plain
    if plain is not None and plain.rate is not None:
        how = "cold, from the disk" if plain.cold else "warm: the page cache had them"
        yield f"{many(plain.files, 'file')} of these read plainly: {size(plain.rate)} a second ({how})"


def _remedy(trial: Trial, facts: Differences) -> Remedy:
    buffer = "A larger shuffle buffer would not help."
    again = f"unstuck doctor {quoted(trial.target.name)} --only samples,benchmark" if trial.target is not None else ""
    plain = facts.plain
    if not facts.paths:
        return Remedy(f"Bring what it reads from to this machine, or read ahead with more workers. {buffer}", [again])
    folder = os.path.dirname(facts.paths[0])
    if plain is not None and plain.rate is not None and plain.rate > AS_SLOW * max(_rate(facts), 1.0):
        kept = "" if plain.cold else " (though from the page cache)"
        at = f" at {facts.where.file}:{facts.where.line}" if facts.where is not None else ""
        return Remedy(
            f"The files themselves come faster when they are read plainly{kept}. Look at how they are read{at}: in "
            f"larger pieces, once, without a round trip for each. More workers hide the wait. {buffer}",
            [f"time head -c 1G {quoted(facts.paths[0])} > /dev/null"],
        )
    return Remedy(
        f"Copy {folder} to a local disk and point the loader there; or try at another hour, when the storage is less "
        f"busy; or hide the wait behind more workers. {buffer}",
        [f"time head -c 1G {quoted(facts.paths[0])} > /dev/null", f"cp -r {quoted(folder)} /tmp/", again],
    )
