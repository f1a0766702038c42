"""What the times went into in which a loop asked for no batch: its body, and what lies between two passes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..evidence.basics import Timing
from ..evidence.loader import (
    CALLBACK,
    CHECKPOINT,
    COMPILE,
    ENDING,
    FIRST_BATCH,
    OTHER_LOADER,
    RANKS,
    STARTING,
    VALIDATION,
    Gap,
    Part,
)
from ..inside import format as f
from ..inside.format import APART, Kind
from .passes import Pass, kind_of_pass
from .phases import passes
from .reader import Facts
from .side_work import Named, holds_up, named, place_of, saver

Times = npt.NDArray[np.int64]
Stretch = tuple[int, int, Named]  # of side work: when it began and ended
LONGEST = 16  # gaps that are told one by one
BOUNDARIES = 16  # the newest
WORTH = 0.001  # seconds: what took less is no part of a gap that is told


class Work(NamedTuple):
    """Stretches of side work that do not overlap, in the order of time."""

    starts: Times
    ends: Times
    keys: Times  # into `names`
    names: list[Named]


def gaps(facts: Facts) -> dict[int, dict[str, Any]]:
    """By loader: its longest gaps, its boundaries, and what all its bodies together went into."""
    known = passes(facts)
    return {number: _of_loader(facts, number, known) for number in {one.loader.number for one in known}}


def _of_loader(facts: Facts, number: int, known: list[Pass]) -> dict[str, Any]:
    starts, ends, batches = _bodies(facts, number)
    work = _work(facts, number, known)
    lengths = ends - starts
    longest = np.sort(
        np.argpartition(lengths, -LONGEST)[-LONGEST:] if len(lengths) > LONGEST else np.arange(len(lengths))
    )
    return {
        "gaps": [_gap(facts, int(starts[one]), int(ends[one]), int(batches[one]), work) for one in longest],
        "boundaries": _boundaries(facts, number, known),
        "between": _summed(starts, ends, work),
        "between_of": _timing(lengths),
    }


def _bodies(facts: Facts, number: int) -> tuple[Times, Times, Times]:
    """When each began and ended, as far back as the ring goes, and after which batch."""
    waits = facts.recording.events(Kind.WAIT, number).astype(np.int64)
    later = waits[waits[:, f.R_C] > 0]
    starts, ends, batches = later[:, f.R_START] - later[:, f.R_C], later[:, f.R_START], later[:, f.R_A] - 1
    found = [_last_body(waits, *one) for one in _asked_in_vain(facts, number).items()]
    last = [one for one in found if one is not None]
    if last:
        columns = np.array(last, dtype=np.int64).T
        starts, ends, batches = (np.append(*both) for both in zip((starts, ends, batches), columns, strict=True))
    order = np.argsort(starts)
    return starts[order], ends[order], batches[order]


def _asked_in_vain(facts: Facts, number: int) -> dict[int, int]:
    """When a batch was asked for and there was none any more, by pass."""
    found: list[list[int]] = facts.recording.events(Kind.PASS_END, number).tolist()
    return {one[f.R_B]: one[f.R_START] for one in found}


def _last_body(waits: Times, number: int, ended: int) -> tuple[int, int, int] | None:
    """That of a pass which came to its end: from its last batch until the next was asked for."""
    mine = waits[waits[:, f.R_B] == number]
    if not len(mine):
        return None
    newest = mine[np.argmax(mine[:, f.R_A])]
    arrived = int(newest[f.R_START] + newest[f.R_DURATION])
    return (arrived, ended, int(newest[f.R_A])) if ended > arrived else None


def _work(facts: Facts, number: int, known: list[Pass], *extra: Stretch) -> Work:
    """Everything that is known of the main thread's time, outermost first: what lies within another is part of it."""
    few = [*_saves(facts), *_waits_for_ranks(facts), *_loaders(facts, number, known), *extra]
    names = list(dict.fromkeys(one[2] for one in few))
    at = {name: key for key, name in enumerate(names)}
    ours = np.array([(begun, ended, at[name]) for begun, ended, name in few], dtype=np.int64).reshape(-1, 3)
    called = facts.recording.events(Kind.CALL).astype(np.int64)
    calls, keys = np.unique(called[:, f.R_KEY], return_inverse=True)
    starts = called[:, f.R_START]
    theirs = np.stack((starts, starts + called[:, f.R_DURATION], keys + len(names)), axis=1)
    names += [named(facts.recording.string(int(one))) for one in calls]
    hooks = np.array([one.what == CALLBACK for one in names], dtype=bool)
    return _filled(_apart(np.concatenate((ours, theirs[~hooks[theirs[:, 2]]])), names), theirs[hooks[theirs[:, 2]]])


def _filled(inner: Work, hooks: Times) -> Work:
    """With the hooks of callbacks, which have what is left of their time: what they call has a name of its own."""
    if not len(hooks):
        return inner
    rest = [part for one in hooks.tolist() for part in _left(inner, *one)]
    own = np.array(rest, dtype=np.int64).reshape(-1, 3)
    both = np.concatenate((np.stack((inner.starts, inner.ends, inner.keys), axis=1), own))
    return _apart(both, inner.names)


def _left(inner: Work, begun: int, ended: int, key: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a stretch that nothing else covers."""
    first, last = np.searchsorted(inner.ends, begun, side="right"), np.searchsorted(inner.starts, ended)
    for one in range(int(first), int(last)):
        if inner.starts[one] > begun:
            yield begun, int(inner.starts[one]), key
        begun = max(begun, int(inner.ends[one]))
    if begun < ended:
        yield begun, ended, key


def _saves(facts: Facts) -> Iterator[Stretch]:
    for one in facts.rows(Kind.SAVE):
        if holds_up(one[f.R_A]):
            yield (*_when(one), Named(CHECKPOINT, saver(one[f.R_A]), place_of(facts.recording, one[f.R_C])))
    for one in facts.noted(Kind.COMPILED):
        yield (*_when(one), Named(COMPILE, "torch.compile", None))


def _waits_for_ranks(facts: Facts) -> Iterator[Stretch]:
    for one in facts.recording.events(Kind.SPAN).tolist():
        yield (*_when(one), named(RANKS + APART + facts.recording.string(one[f.R_KEY])))


def _loaders(facts: Facts, number: int, known: list[Pass]) -> Iterator[Stretch]:
    for one in facts.recording.events(Kind.SHUTDOWN).tolist():
        yield (*_when(one), Named(ENDING, "", None))
    for other in known:
        if other.loader.number != number and other.ended is not None:
            kind = kind_of_pass(other.steps, other.modes, enough=not other.left, trains=True)
            yield other.begun, other.ended, Named(VALIDATION if kind == VALIDATION else OTHER_LOADER, "", None)


def _when(row: list[int]) -> tuple[int, int]:
    return row[f.R_START], row[f.R_START] + row[f.R_DURATION]


def _apart(found: Times, names: list[Named]) -> Work:
    """Rows of beginning, end and name."""
    starts, ends, keys = found[np.lexsort((-found[:, 1], found[:, 0]))].T
    covered = np.maximum.accumulate(np.concatenate((np.zeros(1, dtype=np.int64), ends)))[:-1]
    kept = starts >= covered
    return Work(starts[kept], ends[kept], keys[kept], names)


def _summed(starts: Times, ends: Times, work: Work) -> list[Part]:
    """What of all bodies together each kind of work took. No stretch of work is in two bodies."""
    if not len(starts) or not len(work.starts):
        return []
    at = np.searchsorted(starts, work.starts, side="right") - 1
    inside = (at >= 0) & (work.starts < ends[np.maximum(at, 0)])
    spent = np.minimum(work.ends, ends[np.maximum(at, 0)]) - work.starts
    keys = work.keys[inside]
    seconds = np.bincount(keys, weights=spent[inside], minlength=len(work.names)) / 1e9
    counts = np.bincount(keys, minlength=len(work.names))
    found = [
        Part(what, name, round(float(seconds[key]), 6), int(counts[key]), where)
        for key, (what, name, where) in enumerate(work.names)
        if counts[key]
    ]
    return sorted(found, key=lambda one: -one.seconds)


def _gap(facts: Facts, start: int, end: int, number: int, work: Work) -> Gap:
    first, last = np.searchsorted(work.ends, start), np.searchsorted(work.starts, end)
    found: dict[int, tuple[float, int]] = {}
    for one in range(int(first), int(last)):
        took = (min(int(work.ends[one]), end) - max(int(work.starts[one]), start)) / 1e9
        seconds, count = found.get(int(work.keys[one]), (0.0, 0))
        found[int(work.keys[one])] = (seconds + took, count + 1)
    parts = [
        Part(work.names[key][0], work.names[key][1], round(seconds, 4), count, work.names[key][2])
        for key, (seconds, count) in found.items()
        if seconds >= WORTH
    ]
    parts.sort(key=lambda one: -one.seconds)
    return Gap(at=facts.at(start), seconds=round((end - start) / 1e9, 4), number=number, parts=parts)


def _boundaries(facts: Facts, number: int, known: list[Pass]) -> list[Gap]:
    """From the end of each pass to the first batch of the next one."""
    firsts, ended = _firsts(facts, number), _asked_in_vain(facts, number)
    both = [one for one in sorted(ended) if one + 1 in firsts]
    if not both:
        return []
    begun = facts.recording.events(Kind.ITERATOR, number).tolist()
    extra: list[Stretch] = [(*_when(one), Named(STARTING, "", None)) for one in begun]
    extra += [(*_when(one), Named(FIRST_BATCH, "", None)) for one in firsts.values()]
    work = _work(facts, number, known, *extra)
    return [_gap(facts, ended[one], _when(firsts[one + 1])[1], one, work) for one in both[-BOUNDARIES:]]


def _firsts(facts: Facts, number: int) -> dict[int, list[int]]:
    """The wait for the first batch of each pass."""
    waits = facts.recording.events(Kind.WAIT, number)
    first: list[list[int]] = waits[waits[:, f.R_A] == 0].tolist()
    return {one[f.R_B]: one for one in first}


def _timing(lengths: Times) -> Timing:
    if not len(lengths):
        return Timing()
    p50, p95, p99 = (float(one) / 1e9 for one in np.percentile(lengths, (50, 95, 99)))
    return Timing(len(lengths), float(lengths.sum()) / 1e9, float(lengths.max()) / 1e9, p50, p95, p99)
