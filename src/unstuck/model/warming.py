"""What the user's own code did until the first batch was there, as far as samples, looks and lines tell it."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .doing import fetch_of, place, user_frame
from .evidence import Evidence, Glance
from .first_batch import First
from .glancing import glances_of
from .phrases import duration, many, short
from .places import Place
from .questions import is_users
from .recorded import Process
from .standing import main_stack

MOST = 0.5  # of the first batch in one sample: then it is what comes before the sample that takes long


class Warming(NamedTuple):
    """Of one first batch."""

    where: Place | None  # the line that it was met at most often, or where samples are loaded
    met: int  # looks that met it there, of
    looks: int
    longest: float  # seconds of the sample that took longest
    usual: float  # and of most others
    first_sample: bool  # it has not come, and no sample of it was loaded yet


def warming(evidence: Evidence, main: Process, first: First) -> Warming:
    lines, looks = _met(evidence, main, first)
    loader = first.loader
    at, met = lines[0] if lines else (None, 0)
    if at is None and loader is not None:
        at = loader.reads_at if is_users(loader.reads_at) else loader.created
    timed = [one.sample_times for one in first.loads if one.sample_times.count]
    return Warming(
        where=at,
        met=met,
        looks=looks,
        longest=max((one.longest for one in timed), default=0.0),
        usual=max((one.p50 for one in timed), default=0.0),
        first_sample=not first.came and not first.sampled,
    )


def _met(evidence: Evidence, main: Process, first: First) -> tuple[list[tuple[Place, int]], int]:
    """Lines of the user's that were met while it was loaded. A main process with workers only waits."""
    loader = first.loader
    if loader is None or not loader.num_workers:
        looks = glances_of(evidence, main, first.began, first.began + first.seconds)
        return _common(looks), len(looks)
    found = []
    for worker in () if first.came else evidence.workers_of(main, loader):
        stack = main_stack(evidence, worker.pid)
        inside = fetch_of(stack) if stack is not None else None
        at = place(user_frame(inside[1])) if inside is not None else None
        found += [(at, 1)] if at is not None else []
    return found[:1], len(found)


def _common(looks: list[Glance]) -> list[tuple[Place, int]]:
    """The innermost function of the user's that most of them met, at its most frequent line."""
    met = [[at for frame in one.frames if (at := place(frame)) is not None and is_users(at)] for one in looks]
    counted = Counter(name for each in met for name in dict.fromkeys((at.file, at.function) for at in each))
    most = max(counted.values(), default=0)
    for each in met:
        for at in each:
            if counted[at.file, at.function] == most:
                lines = Counter(one for other in met for one in other if one.function == at.function)
                return [(lines.most_common(1)[0][0], most)]
    return []


def words(warm: Warming, first: First) -> str:
    """`nearly all of it is its first sample, 13.4 s, at data.py:12 (build)`."""
    at = f"{short(warm.where)} ({warm.where.function})" if warm.where is not None else ""
    if not first.came:
        loaded = "its first sample is being loaded" if warm.first_sample else "samples of it come"
        return f"{loaded}{f', at {at}' if at else ''}" if first.loader is not None else f"it is at {at}" if at else ""
    if warm.longest >= MOST * first.seconds:
        return f"nearly all of it is one sample, {duration(warm.longest)}{f', at {at}' if at else ''}"
    return f"it was spent at {at}" if at else ""


def seen(warm: Warming, first: First) -> list[str]:
    told = []
    if warm.longest and first.came:
        told.append(f"one sample took {duration(warm.longest)}, most others {duration(warm.usual)}")
    if warm.met and warm.where is not None:
        told.append(f"{warm.met} of {many(warm.looks, 'look')} met it in {warm.where.function}")
    return told


def advice(warm: Warming, first: First) -> list[str]:
    """What would make it faster, where it is the user's own code that takes the time."""
    loader = first.loader
    at = f"{short(warm.where)} ({warm.where.function})" if warm.where is not None else "the loader's own code"
    if loader is None:
        return [f"Look at what {at} does before there is enough for a batch."]
    if not warm.first_sample and warm.longest < MOST * first.seconds:
        than = ": samples of the first batch take far longer there than those of later ones" if first.came else ""
        return [f"Look at {at}{than or ', where its samples are loaded'}."]
    parts = [f"What {at} does once before its first sample could be done beforehand and kept on disk."]
    if loader.num_workers > 1:
        forked = ", where forked workers find it ready" if loader.context in (None, "fork") else ""
        parts.append(
            f"Each of the {loader.num_workers} workers does it for itself: do it once in the main process{forked}."
        )
    if loader.iterable:
        parts.append("If it fills a buffer, begin to give samples before that is full.")
    return parts
