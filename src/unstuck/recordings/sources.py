"""What a process got from data libraries, and the files it opened."""

from __future__ import annotations

import msgspec

from ..evidence.basics import Place
from ..evidence.loader import DataFile, Source
from ..inside import format as f
from ..inside.format import Kind
from .decoder import Entry
from .reader import Facts

OPENING = "ParquetFile"  # a call of this name opens a file and reads no row
ROWS = "rows"
NEWEST = 32  # files beside the first as many


def sources(facts: Facts) -> list[Source]:
    """In the order of their first calls."""
    every = facts.noted(Kind.SOURCE)
    notes = [one for one in every if not one[f.R_A]]
    again = {one[f.R_KEY]: one[f.R_A] for one in every if one[f.R_A]}
    if not notes:
        return []
    board = {one.key: one for one in facts.board if one.kind == Kind.SOURCE}
    first = min((one[f.R_START] for one in facts.noted(Kind.OPTIMIZER)), default=None)
    rows = facts.recording.events(Kind.SOURCE)
    later: dict[int, int] = {}
    before: dict[int, int] = {}
    for row in rows.tolist() if first is not None else ():
        key, start, lasted = row[f.R_KEY], row[f.R_START], row[f.R_DURATION]
        if start >= first:
            later[key] = later.get(key, 0) + lasted
        else:
            before[key] = max(before.get(key, 0), start + lasted)
    return [
        msgspec.structs.replace(
            _source(facts, one, board.get(one[f.R_KEY]), again.get(one[f.R_KEY], 0)),
            later=later.get(one[f.R_KEY], 0) / 1e9,
            before=facts.at(before[one[f.R_KEY]]) if one[f.R_KEY] in before else None,
        )
        for one in notes
    ]


def _source(facts: Facts, note: list[int], board: Entry | None, again: int) -> Source:
    key = note[f.R_KEY]
    kind, name, threads, *line = facts.recording.string(key).split("\n")
    calls = facts.timing(Kind.SOURCE, key)
    opening, of_rows = name.endswith(OPENING), kind == ROWS
    going_on = board is not None and bool(board.a & 1)
    made = board.b if board is not None else 0
    return Source(
        kind=kind,
        name=name,
        where=Place(line[0], int(line[1]), line[2]) if len(line) == 3 else None,
        calls=calls,
        items=board.a >> 1 if board is not None else 0,
        made=0 if of_rows else made,
        looked=board.c if board is not None else 0,
        blank=board.d if board is not None else 0,
        groups=made if of_rows else 0,
        files=calls.count if opening else 0,
        threads=int(threads) if threads else None,
        at=facts.at(note[f.R_START]),
        last=facts.at(board.since) if board is not None else 0.0,
        since=facts.at(board.since) if board is not None and going_on else None,
        again=again,
    )


def data_files(facts: Facts) -> list[DataFile]:
    """The first, and the newest, in the order in which they were opened."""
    found: dict[str, DataFile] = {}
    for one in facts.noted(Kind.DATA_FILE):
        path, *place = facts.recording.string(one[f.R_KEY]).split("\n")
        known = found.get(path)
        found[path] = DataFile(
            path=path,
            at=known.at if known is not None else facts.at(one[f.R_START]),
            groups=_less_one(one[f.R_A]),
            rows=_less_one(one[f.R_B]),
            size=_less_one(one[f.R_C]),
            opened=max(one[f.R_DURATION], 1),
            number=int(place[0]) if place else known.number if known is not None else 0,
            listed=int(place[1]) if place else known.listed if known is not None else 0,
        )
    every = list(found.values())
    return every if len(every) <= 2 * NEWEST else every[:NEWEST] + every[-NEWEST:]


def _less_one(word: int) -> int | None:
    return word - 1 if word else None
