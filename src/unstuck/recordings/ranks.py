"""What a rank recorded of its part in a distributed run: its group, where it waited for the others, its collectives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ..inside import format as f
from ..inside.format import Kind
from ..model.distributed import Collective, Group, Span
from ..model.places import Place
from .data_facts import Noted

SPANS = 64  # the newest
DEFAULT = ("default_pg", "0")  # names of the group that all ranks are in
MADE, FAILED = 1, 2


class _Group(msgspec.Struct):
    where: Place | None = None
    backend: str | None = ""
    address: str | None = ""
    rank: int | None = None
    world: int | None = None
    timeout: float | None = None
    variables: dict[str, str] = {}


def group(facts: Noted) -> Group | None:
    """The newest: one that was destroyed may have been made anew."""
    notes = facts.noted(Kind.GROUP)
    if not notes:
        return None
    newest = notes[-1]
    told = msgspec.json.decode(facts.recording.string(newest[f.R_A]) or "{}", type=_Group)
    return Group(
        at=facts.at(newest[f.R_START]),
        ended=facts.at(newest[f.R_START] + newest[f.R_DURATION]) if newest[f.R_B] else None,
        backend=told.backend or "",
        rank=told.rank,
        world=told.world,
        timeout=told.timeout,
        address=told.address or "",
        where=told.where,
        failed=newest[f.R_B] == FAILED,
        variables=told.variables,
    )


def spans(facts: Noted) -> list[Span]:
    """As far back as the ring goes, and those that it is in now."""
    rows: list[list[int]] = facts.recording.events(Kind.SPAN).tolist()
    found = [
        Span(
            at=facts.at(one[f.R_START]),
            ended=facts.at(one[f.R_START] + one[f.R_DURATION]),
            failed=bool(one[f.R_A]),
            **_named(facts.recording.string(one[f.R_KEY])),
        )
        for one in sorted(rows, key=lambda one: one[f.R_START])[-SPANS:]
    ]
    found += [
        Span(at=facts.at(one.since), **_named(facts.recording.string(one.key)))
        for one in facts.recording.board()
        if one.kind == Kind.SPAN and one.a
    ]
    return sorted(found, key=lambda one: one.at)


def _named(text: str) -> dict[str, Any]:
    name, *place = text.split("\n")
    if len(place) != 3 or not place[1].isdigit():
        return {"name": name}
    return {"name": name, "where": Place(place[0], int(place[1]), place[2])}


class _Entry(msgspec.Struct):
    """As inside/flight.py writes it."""

    sequence: int = 0
    p2p: bool = False
    operation: str = ""
    created: int = 0
    state: str = ""
    retired: bool = False
    group: list[str] = []
    sizes: list[Any] = []
    timeout_ms: float = 0
    line: Place | None = None
    calls: str = ""


def collectives(path: Path, run_started: float) -> tuple[list[Collective], float | None]:
    """What the Flight Recorder had when it was last asked, and when that was. None: it never was."""
    flight = path.with_suffix(".flight")
    try:
        entries = msgspec.json.decode(flight.read_bytes(), type=list[_Entry])
        taken = flight.stat().st_mtime - run_started
    except (OSError, msgspec.DecodeError):
        return [], None
    return [_collective(one, run_started) for one in entries if not one.p2p], round(taken, 3)


def _collective(one: _Entry, run_started: float) -> Collective:
    """On gloo `retired` tells that it is finished, `state` never changes. On NCCL an entry may be either."""
    return Collective(
        sequence=one.sequence,
        operation=one.operation.partition(":")[2] or one.operation,
        at=round(one.created / 1e9 - run_started, 4),
        finished=one.retired or one.state == "completed",
        group="" if any(name in DEFAULT for name in one.group) else "/".join(one.group),
        sizes=[[int(size) for size in shape] for shape in one.sizes if isinstance(shape, list)],
        where=one.line,
        calls=one.calls,
        timeout=one.timeout_ms / 1e3 or None,
    )
