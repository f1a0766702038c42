"""How a recorded process began: interpreter, imports, model, first samples; its stages and the slowest of each."""

from __future__ import annotations

import os
from typing import Any

from ..evidence.basics import Slowest, Timing
from ..evidence.process import Model
from ..inside import format as f
from ..inside.format import Kind
from .reader import Facts

TICKS = os.sysconf("SC_CLK_TCK")  # a second


def start_of(facts: Facts) -> dict[str, Any]:
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
