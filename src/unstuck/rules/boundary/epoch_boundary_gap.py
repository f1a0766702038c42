"""Much of the run passes between one epoch's last batch and the next one's first, with nothing trained or evaluated.

## What it looks at
How long it took from the end of each pass over a loader to the first batch of the next, and what of that went into
ending workers, starting them, the first batch, checkpoints, loggers, garbage collection, compiling, waiting for other
ranks, validation, and the training's own code. Where that code stood still rather than computed, by the watcher's looks
at the main thread, its line is named.

## Why it happens
Whatever is done once an epoch is done here: callbacks that upload or copy files, wait for a process or sleep,
synchronise, plot. Workers are ended and started anew. Each is small, and together they may be half of a short epoch.
A GPU does nothing meanwhile.

## What to do
Begin with the part that takes most of it, which is named first. What only writes or sends can go on in a thread while
the next epoch trains; workers can stay (`persistent_workers=True`); what need not be done every epoch can be done every
tenth.

## How sure it is
Certain of the times. Validation and computing are what one expects there, and are left out: time of the training's own
code counts only if its main thread was met waiting (asleep, for a file, a socket, a process). It speaks from one second
a boundary and a fifth of the run on, and only where no rule knows the part better. Of starting and ending workers, the
time in which other programs had the CPU cores is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.cpu_contention import fair_making, fair_start
from ...analysis.glances import own_waiting
from ...analysis.loading import fetching, lasted
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import ENDING, FIRST_BATCH, OTHER_LOADER, OWN, RANKS, STARTING, VALIDATION, Loader, Part
from ...evidence.process import Process
from ...wording.settings import once, settings
from ...wording.text import duration, line, many, percent, short, who
from ..rule import Level, rule

BOUNDARIES = 2  # one alone may be a coincidence
EACH = 1.0  # seconds a boundary, on average: what is shorter nobody notices
SHARE = 0.2  # of the run: a fifth is worth another way of doing it
NOT_LOST = (VALIDATION, OTHER_LOADER, RANKS)  # what one expects there; and who waits for others is not the one to blame


class Boundary(NamedTuple):
    """What all boundaries of one loader went into that is neither validation nor computing."""

    main: Process
    loader: Loader
    parts: list[Part]

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.parts)


@rule(
    explains=Symptom.SLOW,
    certainty=Certainty.LIKELY,
    needs=("recording",),
    level=Level.ECHO,
    yields_to=("dataloader-bound", "first-batch-slow", "loader-always-slow", "stuck-in-user-code"),
    fallback=True,
)
def check(case: Case) -> Iterator[Finding]:
    found = [_boundary(case, main, loader) for main in case.mains for loader in main.loaders]
    for one in sorted(found, key=lambda one: -one.seconds)[:1]:
        count, ran = len(one.loader.boundaries), lasted(one.main)
        if count < BOUNDARIES or one.seconds < EACH * count or one.seconds < SHARE * ran:
            continue
        most = one.parts[0]
        yield case.finding(
            one.main,
            cause=f"{percent(one.seconds / ran)} of the run passes between the passes over {one.loader.name}: "
            f"{duration(one.seconds / count)} each time in {who(one.main)}, most of it {_name(most)}.",
            seen=list(_seen(one, count)),
            remedy=_remedy(one, most),
            onset_s=one.loader.boundaries[0].at,
            where=most.where or one.loader.created,
            subject=Subject("loader", one.loader.name),
        )


def _boundary(case: Case, main: Process, loader: Loader) -> Boundary:
    found: dict[tuple[str, str, Place | None], float] = {}
    for part in [one for gap in loader.boundaries for one in gap.parts if one.what not in NOT_LOST]:
        lost = _lost(case, main, loader, part) - (_anyway(case, main, loader) if part.what == FIRST_BATCH else 0.0)
        key = part.what, part.name, part.where
        found[key] = found.get(key, 0.0) + max(lost, 0.0)
    parts = [Part(what, name, seconds, where=where) for (what, name, where), seconds in found.items() if seconds]
    own = own_waiting(case, main, loader.boundaries)
    parts += [own] if own is not None else []
    return Boundary(main, loader, sorted(parts, key=lambda one: -one.seconds))


def _lost(case: Case, main: Process, loader: Loader, part: Part) -> float:
    """Workers that are slow to start and to end because other programs have the CPU cores lose nothing here."""
    if part.what in (STARTING, ENDING):
        return fair_making(case, main, loader, part.seconds)
    return fair_start(case, main, loader, part.seconds) if part.what == FIRST_BATCH else part.seconds


def _anyway(case: Case, main: Process, loader: Loader) -> float:
    """What the first batch takes by itself: of a stream that is begun anew, all of it."""
    loads = fetching(case, main, loader)
    if loader.iterable or not loads:
        return float("inf")
    return max(one.fetches.longest for one in loads)


def _name(part: Part) -> str:
    spot = f" at {short(part.where)}" if part.where is not None else ""
    if part.what == OWN:
        return f"in its own code{spot}, {part.name}"
    return f"{part.what}{f' ({part.name})' if part.name else ''}{spot}"


def _seen(one: Boundary, count: int) -> Iterator[str]:
    yield f"{many(count, 'boundary')} took {duration(one.seconds)} beside validation"
    for part in one.parts[:5]:
        spot = f", {line(part.where)}" if part.where is not None else ""
        yield f"{duration(part.seconds)} in all: {part.what}{f' ({part.name})' if part.name else ''}{spot}"
    looped = one.loader.waits.total + one.loader.bodies.total
    yield f"an epoch between them took {duration(looped / max(one.loader.passes, 1))}"


def _remedy(one: Boundary, most: Part) -> Remedy:
    if most.what in (ENDING, STARTING, FIRST_BATCH) and one.loader.num_workers:
        stay = settings(one.loader, persistent_workers=True)
        return Remedy(f"Set {stay}, and {once(one.loader)}, so that its workers stay between passes.")
    if most.what == OWN:
        spot = (
            f"Look at {line(most.where)}: it"
            if most.where is not None
            else "Look at what the loop does after an epoch: it"
        )
        return Remedy(
            f"{spot} is {most.name} while nothing is trained. Do it in a thread that is joined at the next boundary, "
            "or not after every epoch."
        )
    return Remedy(
        f"Begin with {_name(most)}: do it in a thread beside the next epoch, or not after every epoch.",
    )
