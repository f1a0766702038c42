"""The stretches of a process's way: training, validation, checkpoints, and what the user calls by a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..evidence.distributed import Phase
from ..evidence.epochs import CHECKPOINT, UNKNOWN
from ..evidence.process import Saved
from ..inside import format as f
from ..inside.format import Kind
from .decoder import LOADER_KINDS, Record, signed
from .passes import Pass, Passes
from .reader import Facts

NEWEST = 64
TOGETHER = 1.0  # seconds between two files of one checkpoint


def phases(facts: Facts, saved: list[Saved], at: Callable[[int], float]) -> list[Phase]:
    """The newest, in the order of their beginning."""
    known = account(facts)
    found = [
        _named(one, known, at) if one.name is not None else _passed(one, at) for one in known if one.around is None
    ]
    return sorted([*found, *_checkpoints(saved, found)], key=lambda one: one.at)[-NEWEST:]


def passes(facts: Facts) -> list[Pass]:
    """Every pass over a loader that a recording still knows of, in the order of their beginning."""
    return [one for one in account(facts) if one.name is None]


def account(facts: Facts) -> list[Pass]:
    """The same with the stretches that the user named."""
    if facts.passes is None:
        facts.passes = sorted(_account(facts), key=lambda one: one.begun)
    return facts.passes


def _account(facts: Facts) -> Iterator[Pass]:
    """All that is recorded, told in the order of time, and what goes on now."""
    shown = any(entry.kind in (*LOADER_KINDS, Kind.PHASE) for entry in facts.board)
    if not shown and not facts.noted(Kind.ITERATOR) and not facts.noted(Kind.PHASE):
        return iter(())  # most workers have no loader of their own
    known = Passes(facts.recording.header[f.H_MONOTONIC])
    read: dict[int, Callable[[Record], Pass | None]] = {
        Kind.ITERATOR: known.iterator, Kind.WAIT: known.batch, Kind.PASS_END: known.pass_end,
        Kind.PHASE: lambda record: known.phase(record, facts.recording.string(record.key)),
    }  # fmt: skip
    found: dict[Pass, None] = {}
    for record in _records(facts):
        if record.kind == Kind.SHUTDOWN:
            known.shutdown(record)
        else:
            told = read[record.kind](record)
            found |= {told: None} if told is not None else {}
    loaders = [entry for entry in facts.board if entry.kind in LOADER_KINDS]
    for entry in loaders:
        known.loader(entry.key)
    known.look(loaders)
    for entry in loaders:
        told = known.in_hand(entry)
        found |= {told: None} if told is not None else {}
    known.confirm_left()
    known.decide(0, final=True)
    return iter(found)


def _records(facts: Facts) -> list[Record]:
    """Of all batches of a pass the first and the newest will do, and none if its beginning and its end are known."""
    kinds = (Kind.ITERATOR, Kind.PASS_END, Kind.SHUTDOWN, Kind.PHASE)
    rows = [Record(*row[1 : f.R_A], *map(signed, row[f.R_A :])) for kind in kinds for row in facts.rows(kind)]
    begun = {(one.key, one.a) for one in rows if one.kind == Kind.ITERATOR}
    ended = {(one.key, one.b) for one in rows if one.kind == Kind.PASS_END}
    said = {(one.key, one.b) for one in rows if one.kind == Kind.PHASE and one.a}
    unsaid = [one for one in rows if one.kind == Kind.PHASE and not one.a and (one.key, one.b) not in said]
    rows += [one._replace(a=1, duration=0) for one in unsaid]  # its beginning was overwritten
    rows += [one for one in _batches(facts) if (one.key, one.b) not in begun & ended]
    return sorted(rows, key=lambda one: one.end)


def _batches(facts: Facts) -> Iterator[Record]:
    """The first and the last of those that follow each other in one pass."""
    waits = facts.recording.events(Kind.WAIT).astype(np.int64)
    if not len(waits):
        return
    waits = waits[np.argsort(waits[:, f.R_START], kind="stable")]
    changes = np.flatnonzero((waits[1:, [f.R_KEY, f.R_B]] != waits[:-1, [f.R_KEY, f.R_B]]).any(axis=1))
    ends = np.unique(np.concatenate(([0], changes, changes + 1, [len(waits) - 1])))
    yield from (Record(*row[1:]) for row in waits[ends].tolist())


def _named(one: Pass, known: list[Pass], at: Callable[[int], float]) -> Phase:
    inner = [each for each in known if each.around is one]
    newest = inner[-1] if inner else None
    return Phase(
        kind=one.kind or UNKNOWN,
        number=one.epoch,
        at=at(one.begun),
        ended=None if one.ended is None else at(one.ended),
        loader=newest.loader.number if newest else None,
        number_of_pass=newest.number if newest else None,
        batches=sum(each.batches for each in inner),
        steps=sum(each.steps for each in inner),
        left=any(each.left for each in inner),
        told=True,
    )


def _passed(one: Pass, at: Callable[[int], float]) -> Phase:
    return Phase(
        kind=one.kind or UNKNOWN,
        number=one.epoch,
        at=at(one.begun),
        ended=None if one.ended is None else at(one.ended),
        loader=one.loader.number,
        number_of_pass=one.number,
        batches=one.batches,
        steps=one.steps,
        left=one.left,
    )


def _checkpoints(saved: list[Saved], others: list[Phase]) -> list[Phase]:
    """Files that were saved one right after the other are one checkpoint. In the background it is no stretch."""
    found: list[Phase] = []
    for one in saved:
        if one.background or one.failed:
            continue
        begun = found.pop().at if found and _same(found[-1], one, others) else one.at
        number = max((other.number for other in others if other.at <= begun), default=0)
        found.append(Phase(kind=CHECKPOINT, number=number, at=begun, ended=round(one.at + one.seconds, 6)))
    return found


def _same(before: Phase, one: Saved, others: list[Phase]) -> bool:
    ended = before.ended or before.at
    between = any(ended < moment < one.at for other in others for moment in (other.at, other.ended or 0.0))
    return one.at - ended <= TOGETHER and not between
