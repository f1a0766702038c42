"""What a rank recorded of its part in a distributed run: group, waits, collectives, models, samplers, `prepare`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..evidence.basics import Ordinal, Place
from ..evidence.distributed import Collective, Group, Loading, Prepared, Sampling, Span, Wrapped
from ..inside import format as f
from ..inside.format import APART, Kind
from ..safe_files import open_plain
from .decoder import place_in

if TYPE_CHECKING:  # it reads with numpy, and what a live process answers needs none
    from .reader import Facts

SPANS = 64  # the newest
MADE, FAILED = 1, 2
DEFAULT = ("default_pg", "0")  # names of the group that all ranks are in
LARGEST_ANSWER = 4 << 20  # bytes: 256 entries take a twentieth of that


class _Group(msgspec.Struct):
    where: Place | None = None
    backend: str | None = ""
    address: str | None = ""
    rank: Ordinal | None = None
    world: Ordinal | None = None
    timeout: float | None = None
    variables: dict[str, str] = {}


def group(facts: Facts) -> Group | None:
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


def spans(facts: Facts) -> list[Span]:
    """As far back as the ring goes, and those that it is in now."""
    rows: list[list[int]] = facts.recording.events(Kind.SPAN).tolist()
    found = [
        Span(
            at=facts.at(one[f.R_START]),
            ended=facts.at(one[f.R_START] + one[f.R_DURATION]),
            failed=bool(one[f.R_A]),
            **_named_span(facts.recording.string(one[f.R_KEY])),
        )
        for one in sorted(rows, key=lambda one: one[f.R_START])[-SPANS:]
    ]
    found += [
        Span(at=facts.at(one.since), **_named_span(facts.recording.string(one.key)))
        for one in facts.recording.board()
        if one.kind == Kind.SPAN and one.a
    ]
    return sorted(found, key=lambda one: one.at)


def _named_span(text: str) -> dict[str, Any]:
    name, *place = text.split(APART)
    return {"name": name, "where": place_in(place)}


class _Answer(msgspec.Struct):
    """As inside/failures/collectives.py writes it."""

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


def collectives(flight: Path, run_started: float) -> tuple[list[Collective], float | None]:
    """What the Flight Recorder had when it was last asked, and when that was. None: it never was.

    Raises OSError or ValueError where that cannot be read.
    """
    try:
        with os.fdopen(open_plain(flight, largest=LARGEST_ANSWER), "rb") as file:
            entries = msgspec.json.decode(file.read(LARGEST_ANSWER), type=list[_Answer])
            taken = os.fstat(file.fileno()).st_mtime - run_started
        return [_collective(one, run_started) for one in entries if not one.p2p], round(taken, 3)
    except FileNotFoundError:
        return [], None


def _collective(one: _Answer, run_started: float) -> Collective:
    """On gloo `retired` tells that it is finished, `state` never changes. On NCCL an entry may be either."""
    return Collective(
        sequence=one.sequence,
        operation=one.operation.partition(":")[2] or one.operation,
        at=round(one.created / 1e9 - run_started, 6),
        finished=one.retired or one.state == "completed",
        group="" if any(name in DEFAULT for name in one.group) else "/".join(one.group),
        sizes=[[size for size in shape if isinstance(size, int)] for shape in one.sizes if isinstance(shape, list)],
        where=one.line,
        calls=one.calls,
        timeout=one.timeout_ms / 1e3 or None,
    )


class _Model(msgspec.Struct):
    kind: str = ""
    where: Place | None = None
    find_unused_parameters: bool = False
    static_graph: bool = False
    parameters: int = 0
    names: list[str] = []


def wrapped(facts: Facts) -> list[Wrapped]:
    return [_wrapped(facts, one) for one in facts.noted(Kind.WRAPPED)]


def _wrapped(facts: Facts, one: list[int]) -> Wrapped:
    told = msgspec.json.decode(facts.recording.string(one[f.R_A]) or "{}", type=_Model)
    return Wrapped(at=facts.at(one[f.R_START]), **msgspec.structs.asdict(told))


def sampling(facts: Facts, number: int) -> list[Sampling]:
    """Of one loader, the first pass first."""
    return [_sampling(facts, one) for one in facts.noted(Kind.SAMPLING, number)]


def _sampling(facts: Facts, one: list[int]) -> Sampling:
    return msgspec.convert({**facts.recording.told(one[f.R_B]), "number": one[f.R_A]}, Sampling)


def prepared(facts: Facts) -> list[Prepared]:
    """Told when it begins and again when it is done: the newest of each beginning counts."""
    newest = {one[f.R_START]: one for one in facts.noted(Kind.PREPARED)}
    return [_prepared(facts, one) for one in newest.values()]


def _prepared(facts: Facts, one: list[int]) -> Prepared:
    told = facts.recording.told(one[f.R_A])
    known = {name: value for name, value in told.items() if value is not None}
    known["before"] = _loading(told.get("before"))
    if "after" in known:
        known["after"] = _loading(known["after"])
    return msgspec.convert(
        {**known, "at": facts.at(one[f.R_START]), "loader": one[f.R_B] or None}, Prepared, strict=False
    )


def _loading(told: object) -> dict[str, Any]:
    """What is not known stays at its default."""
    fields, known = Loading.__struct_fields__, msgspec.convert(told or {}, dict[str, Any])
    return {name: value for name, value in known.items() if name in fields and value is not None}
