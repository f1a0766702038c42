"""How a recorded process began: its interpreter, its imports, its model, its loaders, its first samples and batches."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from ..evidence.basics import Slowest, Timing
from ..evidence.loader import HeldBack
from ..evidence.process import Model
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts

TICKS = os.sysconf("SC_CLK_TCK")  # a second


def of_process(facts: Facts) -> dict[str, Any]:
    header = facts.recording.header
    steps = facts.noted(Kind.OPTIMIZER)
    return {
        "started": _started(facts),
        "imported": _moment(facts, f.H_IMPORTED),
        "processors": header[f.H_ALLOWED] or None,
        "model": _model(facts) if header[f.H_ROLE] == f.ROLE_MAIN else None,
        "first_sample": _moment(facts, f.H_FIRST_SAMPLE),
        "first_step": facts.at(steps[0][f.R_START]) if steps else None,
        "device": facts.recording.string(steps[0][f.R_B]) if steps else "",
        "stages": _by_name(facts, Kind.STAGE),
        "staged": facts.totals.get((Kind.STAGE, 0), (0,))[0] / 1e9,
        "stage_cpu": _by_name(facts, Kind.STAGE_CPU),
        "stage_cpu_of": _by_name(facts, Kind.STAGE_TIMED),
        "stage_read": _bytes(facts, Kind.STAGE_READ),
        "stage_fetched": _bytes(facts, Kind.STAGE_FETCHED),
        "slowest": _slowest(facts),
    }


def of_loader(facts: Facts, number: int) -> dict[str, Any]:
    made, since = facts.noted(Kind.LOADER, number), described_since(facts, number)
    early = sorted(
        (one for one in facts.noted(Kind.EARLY, number) if one[f.R_START] >= since), key=lambda one: one[f.R_A]
    )
    first = early[0] if early and not early[0][f.R_A] else None
    looks = msgspec.json.decode(facts.recording.string(first[f.R_B]) or "{}", type=dict[str, str]) if first else {}
    return {
        "made": facts.at(made[0][f.R_START]) if made else None,
        "began": _began(facts, number, since),
        "first": [one[f.R_DURATION] / 1e9 for one in early],
        "first_at": facts.at(first[f.R_START] + first[f.R_DURATION]) if first else None,
        "first_shapes": looks.get("shapes", ""),
        "first_device": looks.get("device", ""),
        "drawing": facts.timing(Kind.DRAWING, number),
    }


def described_since(facts: Facts, number: int) -> int:
    """When the loader was first described as it is now; 0 unless its number was another loader's before.

    A program that makes loaders with ever other settings at one line has the same number for several of them: what is
    known of the workers, lengths and first batches of the ones before does not belong to this one.
    """
    notes = [one for one in facts.noted(Kind.LOADER, number) if one[f.R_A]]
    others = [at for at, one in enumerate(notes, 1) if one[f.R_A] != notes[-1][f.R_A]]
    return notes[others[-1]][f.R_START] if others else 0


def held_back(facts: Facts, number: int) -> list[HeldBack]:
    """What a stream held back when the first batch of a pass was there."""
    found = []
    for one in facts.noted(Kind.HELD, number):
        told = msgspec.json.decode(facts.recording.string(one[f.R_B]) or "{}", type=dict[str, Any])
        if told:
            number, at = one[f.R_A], facts.at(one[f.R_START])
            found.append(msgspec.convert({**told, "number": number, "at": at}, HeldBack, strict=False))
    return found


def _started(facts: Facts) -> float | None:
    """The kernel counts from boot, as the clock does unless the machine has slept meanwhile."""
    header = facts.recording.header
    began = header[f.H_STARTED] * 1_000_000_000 // TICKS
    return facts.at(began) if 0 < began <= header[f.H_MONOTONIC] else None


def _moment(facts: Facts, word: int) -> float | None:
    moment = facts.recording.header[word]
    return facts.at(moment) if moment else None


def _model(facts: Facts) -> Model | None:
    begun, ended, parameters, elements = (
        facts.recording.header[word] for word in (f.H_MODEL_BEGUN, f.H_MODEL_ENDED, f.H_PARAMETERS, f.H_ELEMENTS)
    )
    return Model(facts.at(begun), facts.at(ended), parameters, elements) if begun and ended else None


def _began(facts: Facts, number: int, since: int) -> float | None:
    """When the first pass was asked for: the notes keep the first ones; of one that is being set up the board knows."""
    begun = [one for one in facts.noted(Kind.ITERATOR, number) if one[f.R_START] >= since]
    passes = [one[f.R_START] for one in begun if one[f.R_A] == 1]
    board = [one.since for one in facts.board if one.kind == Kind.ITERATOR and one.key == number and one.b == 1]
    found = passes or board
    return facts.at(min(found)) if found else None


def _by_name(facts: Facts, kind: int) -> dict[str, Timing]:
    keys = [key for known, key in facts.totals if known == kind and key]
    return {facts.recording.string(key): facts.timing(kind, key) for key in keys}


def _bytes(facts: Facts, kind: int) -> dict[str, int]:
    return {
        facts.recording.string(key): total[0] for (known, key), total in facts.totals.items() if known == kind and key
    }


def _slowest(facts: Facts) -> list[Slowest]:
    """The newest of each stage, which is the slowest."""
    newest = {one[f.R_KEY]: one for one in facts.noted(Kind.SLOWEST)}
    return [
        Slowest(
            stage=facts.recording.string(key),
            seconds=one[f.R_DURATION] / 1e9,
            item=facts.recording.string(one[f.R_A]),
            index=one[f.R_B] - 1 if 0 < one[f.R_B] < f.MASK >> 1 else None,
            at=facts.at(one[f.R_START]),
        )
        for key, one in newest.items()
    ]
