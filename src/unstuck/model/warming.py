"""What the user's own code did until the first batch was there, as far as samples, looks and lines tell it."""

from __future__ import annotations

from typing import NamedTuple

from .doing import fetch_of, place, user_frame
from .evidence import Evidence
from .first_batch import First
from .glancing import glances_of, lines_of
from .phrases import duration, many, short
from .places import Place
from .questions import is_users, workers_of
from .recorded import Process
from .standing import main_stack

MOST = 0.5  # of the first batch in one sample: then it is what comes before the sample that takes long


class Warming(NamedTuple):
    """Of one first batch."""

    where: Place | None  # the line that it was met at most often, or where samples are loaded
    met: int  # looks that met it there, of
    looks: int
    samples: int  # loaded so far, where it has not come
    need: int  # samples in a batch; 0: not known
    longest: float  # seconds of the sample that took longest
    usual: float  # and of most others
    going_on: float  # seconds for which the sample that is being loaded has been so

    @property
    def one_sample(self) -> float:
        return max(self.longest, self.going_on)

    def left(self, first: First) -> float | None:
        """Seconds, as the samples before went."""
        if first.came or not self.samples or self.samples >= self.need:
            return None
        return (self.need - self.samples) * (first.seconds / self.samples if self.samples > 1 else 0.0) or None


def warming(evidence: Evidence, main: Process, first: First) -> Warming:
    lines, looks = _met(evidence, main, first)
    loader = first.loader
    at, met = lines[0] if lines else (None, 0)
    if at is None and loader is not None:
        at = loader.reads_at if is_users(loader.reads_at) else loader.created
    # The first batch is the first worker's.
    loads = first.loads[:1]
    timed = [one.sample_times for one in first.loads if one.sample_times.count]
    return Warming(
        where=at,
        met=met,
        looks=looks,
        samples=sum(one.samples for one in loads),
        need=loader.batch_size or 0 if loader is not None else 0,
        longest=max((one.longest for one in timed), default=0.0),
        usual=max((one.p50 for one in timed), default=0.0),
        going_on=0.0 if first.came or any(one.samples for one in loads) else first.seconds,
    )


def _met(evidence: Evidence, main: Process, first: First) -> tuple[list[tuple[Place, int]], int]:
    """Lines of the user's that were met while it was loaded. A main process with workers only waits."""
    loader = first.loader
    if loader is None or not loader.num_workers:
        looks = glances_of(evidence, main, first.began, first.began + first.seconds)
        return lines_of(looks), len(looks)
    found = []
    for worker in () if first.came else workers_of(evidence, main, loader):
        stack = main_stack(evidence, worker.pid)
        inside = fetch_of(stack) if stack is not None else None
        at = place(user_frame(inside[1])) if inside is not None else None
        found += [(at, 1)] if at is not None else []
    return found[:1], len(found)


def words(warm: Warming, first: First) -> str:
    """`nearly all of it is its first sample, 13.4 s, at data.py:12 (build)`."""
    at = f"{short(warm.where)} ({warm.where.function})" if warm.where is not None else ""
    if not first.came:
        of = f" of {warm.need:,}" if warm.need else ""
        loaded = f"{warm.samples:,}{of} samples are loaded" if warm.samples else "its first sample is being loaded"
        return f"{loaded}{f', at {at}' if at else ''}" if first.loader is not None else f"it is at {at}" if at else ""
    if warm.longest >= MOST * first.seconds:
        return f"nearly all of it is one sample, {duration(warm.longest)}{f', at {at}' if at else ''}"
    return f"it was spent at {at}" if at else ""


def seen(warm: Warming, first: First) -> list[str]:
    told = []
    if warm.longest and first.came:
        told.append(f"one sample took {duration(warm.longest)}, most others {duration(warm.usual)}")
    if not first.came and warm.samples:
        told.append(f"{many(warm.samples, 'sample')} loaded so far" + (f" of {warm.need:,}" if warm.need else ""))
    if warm.met:
        told.append(f"{warm.met} of {many(warm.looks, 'look')} met it at {short(warm.where)}")
    return told


def advice(warm: Warming, first: First) -> list[str]:
    """What would make it faster, where it is the user's own code that takes the time."""
    loader = first.loader
    at = f"{short(warm.where)} ({warm.where.function})" if warm.where is not None else "the loader's own code"
    if loader is None:
        return [f"Look at what {at} does before there is enough for a batch."]
    if warm.one_sample < MOST * first.seconds:
        return [f"Look at {at}: samples of the first batch take far longer there than those of later ones."]
    parts = [f"What {at} does once before its first sample could be done beforehand and kept on disk."]
    if loader.num_workers > 1:
        forked = ", where forked workers find it ready" if loader.context in (None, "fork") else ""
        parts.append(
            f"Each of the {loader.num_workers} workers does it for itself: do it once in the main process{forked}."
        )
    if loader.iterable:
        parts.append("If it fills a buffer, begin to give samples before that is full.")
    return parts
