"""Trainers of frameworks, what a dataset says of its buckets, and what the user's code notes about itself."""

from __future__ import annotations

from typing import Any

import msgspec

from ..evidence.frameworks import LIGHTNING, TRANSFORMERS, Framework
from ..evidence.loader import Buckets, Loader, Note, Skipping
from ..inside import format as f
from ..inside.format import SKIPPED_BITS, SKIPPED_BY_LOADER, Kind
from ..wording.settings import ARGUMENTS
from .decoder import LOADER_KINDS, Entry
from .reader import Facts
from .shards import decoded


def of_process(facts: Facts) -> dict[str, Any]:
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
        known.update(decoded(facts, one[f.R_A]))
        if one[f.R_DURATION]:
            known["ended"] = facts.at(one[f.R_START] + one[f.R_DURATION])
    return [msgspec.convert(one, Framework, strict=False) for one in found.values() if "name" in one]


def _buckets(facts: Facts, one: list[int]) -> Buckets:
    known = {**decoded(facts, one[f.R_A]), "at": facts.at(one[f.R_START]), "loader": one[f.R_B] or None}
    return msgspec.convert({**known, "seconds": one[f.R_DURATION] / 1e9}, Buckets, strict=False)


def _note(facts: Facts, one: list[int]) -> Note:
    return Note(facts.recording.string(one[f.R_KEY]), facts.at(one[f.R_START]), decoded(facts, one[f.R_A]))


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
