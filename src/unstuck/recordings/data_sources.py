"""Where a process got its data from: libraries and files, lists of shards, and what trainers and datasets say of it."""

from __future__ import annotations

from typing import Any

import msgspec

from ..evidence.frameworks import LIGHTNING, TRANSFORMERS, Framework
from ..evidence.loader import Buckets, DataFile, Loader, Note, ShardError, Shards, ShortShard, Skipping, Source
from ..inside import format as f
from ..inside.format import SKIPPED_BITS, SKIPPED_BY_LOADER, Kind
from ..wording.settings import ARGUMENTS
from .decoder import LOADER_KINDS, Entry, less_one, place_in
from .reader import Facts

OPENING = "ParquetFile"  # a call of this name opens a file and reads no row
ROWS = "rows"
NEWEST = 32  # files beside the first as many
HALF = 32  # bits of a word with two numbers


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
        where=place_in(line),
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
            groups=less_one(one[f.R_A]),
            rows=less_one(one[f.R_B]),
            size=less_one(one[f.R_C]),
            opened=max(one[f.R_DURATION], 1),
            number=int(place[0]) if place else known.number if known is not None else 0,
            listed=int(place[1]) if place else known.listed if known is not None else 0,
        )
    every = list(found.values())
    return every if len(every) <= 2 * NEWEST else every[:NEWEST] + every[-NEWEST:]


def shards(facts: Facts) -> list[Shards]:
    notes: dict[int, list[list[int]]] = {}
    for one in facts.noted(Kind.SHARDS):
        notes.setdefault(one[f.R_KEY], []).append(one)
    return [_shards(facts, key, own) for key, own in notes.items()]


def _shards(facts: Facts, key: int, notes: list[list[int]]) -> Shards:
    """Noted at its beginning, and at the end of a pass with how many there were and what one gave at most."""
    known = _decoded(facts, key)
    ends = [one for one in notes if one[f.R_DURATION]]
    known.update(passes=len(ends), usual=max((one[f.R_B] >> HALF for one in ends), default=0))
    for files in (one[f.R_B] & (1 << HALF) - 1 for one in ends):
        known.update({} if known.get("mine") is not None or not files else {"mine": files - 1})
    now = next((entry for entry in facts.board if (entry.kind, entry.key) == (Kind.SHARDS, key)), None)
    if now is not None:
        known.update(opened=now.a, finished=now.b, samples=now.c, failed=now.d, now=now.text)
        known.update(now_since=facts.at(now.since))
    errors = [one for one in facts.noted(Kind.SHARD_ERROR) if one[f.R_KEY] == key]
    short = [one for one in facts.noted(Kind.SHARD_SHORT) if one[f.R_KEY] == key]
    known.update(short=[ShortShard(facts.recording.string(one[f.R_A]), one[f.R_B], one[f.R_C]) for one in short])
    known.update(at=facts.at(notes[0][f.R_START]), errors=_errors(facts, errors))
    return msgspec.convert(known, Shards, strict=False)


def _errors(facts: Facts, notes: list[list[int]]) -> list[ShardError]:
    """Those without a text say what became of the shard, of an error that began at the same moment."""
    later = {one[f.R_START]: {"gave": one[f.R_B], "usual": one[f.R_C]} for one in notes if not one[f.R_A]}
    back = {one[f.R_START] for one in notes if not one[f.R_A] and one[f.R_DURATION]}  # it could be read after all
    told = [one for one in notes if one[f.R_A] and one[f.R_START] not in back]
    return [_error(facts, one, later.get(one[f.R_START], {})) for one in told]


def _error(facts: Facts, one: list[int], later: dict[str, int]) -> ShardError:
    known = _decoded(facts, one[f.R_A])
    known.update(at=facts.at(one[f.R_START]), before=one[f.R_B], slept=one[f.R_C] / 1e9, **later)
    return msgspec.convert(known, ShardError, strict=False)


def _decoded(facts: Facts, number: int) -> dict[str, Any]:
    """Facts that were written as JSON; what is not known stays at its default."""
    return {name: value for name, value in facts.recording.told(number).items() if value is not None}


def frameworks_of(facts: Facts) -> dict[str, Any]:
    """As fields of Process."""
    return {
        "frameworks": _frameworks(facts),
        "buckets": [_buckets(facts, one) for one in facts.noted(Kind.BUCKETS)],
        "notes": [_note(facts, one) for one in facts.noted(Kind.NOTE)],
        "skipping": _skipping(facts),
    }


def made_by(facts: Facts, loaders: list[Loader]) -> list[Loader]:
    """Loaders that a framework makes know so."""
    known = _frameworks(facts)
    return [msgspec.structs.replace(one, made_by=_maker(one, known) or one.made_by) for one in loaders]


def _maker(loader: Loader, known: list[Framework]) -> str:
    """One that was made by the very line that started a trainer was made inside of that."""
    created = loader.created
    for one in known if created is not None else ():
        inside = one.where is not None and created == one.where
        if one.name == TRANSFORMERS and inside:
            return ARGUMENTS
        if one.name == LIGHTNING and created is not None and created.function.endswith("_dataloader"):
            return f"{one.data or one.module}.{created.function}"
        if one.name == LIGHTNING and inside and one.data:
            return one.data
    return ""


def _frameworks(facts: Facts) -> list[Framework]:
    """Told when one begins and again when more is known: what was told later is added."""
    found: dict[int, dict[str, Any]] = {}
    for one in facts.noted(Kind.FRAMEWORK):
        known = found.setdefault(one[f.R_KEY], {"at": facts.at(one[f.R_START])})
        known.update(_decoded(facts, one[f.R_A]))
        if one[f.R_DURATION]:
            known["ended"] = facts.at(one[f.R_START] + one[f.R_DURATION])
    return [msgspec.convert(one, Framework, strict=False) for one in found.values() if "name" in one]


def _buckets(facts: Facts, one: list[int]) -> Buckets:
    known = {**_decoded(facts, one[f.R_A]), "at": facts.at(one[f.R_START]), "loader": one[f.R_B] or None}
    return msgspec.convert({**known, "seconds": one[f.R_DURATION] / 1e9}, Buckets, strict=False)


def _note(facts: Facts, one: list[int]) -> Note:
    return Note(facts.recording.string(one[f.R_KEY]), facts.at(one[f.R_START]), _decoded(facts, one[f.R_A]))


def _skipping(facts: Facts) -> list[Skipping]:
    return [_passed_over(facts, entry) for entry in facts.board if entry.kind == Kind.SKIPPING]


def _passed_over(facts: Facts, one: Entry) -> Skipping:
    loader = next((each for each in facts.board if each.kind in LOADER_KINDS and each.key == one.key), None)
    how, lasted, skipped = one.d & ((1 << SKIPPED_BITS) - 1), one.d >> SKIPPED_BITS, one.a
    if how == SKIPPED_BY_LOADER and loader is not None and loader.since >= one.since:
        skipped, lasted = min(loader.a, one.b), loader.since - one.since
        how = 0 if skipped >= one.b or loader.kind == Kind.PASS_END else how
    return Skipping(
        facts.recording.string(one.c),
        facts.at(one.since),
        skipped,
        one.b or None,
        seconds=lasted / 1e9,
        ended=not how,
        loader=one.key,
    )
