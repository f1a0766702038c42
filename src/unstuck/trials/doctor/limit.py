"""What the limit of a loader's speed is, by what changes when a part of its work is taken away."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...evidence.basics import Place
from ...evidence.trial import (
    BALANCED,
    COMPUTING,
    HAND_OVER,
    PROCESSOR,
    STORAGE,
    WAITING,
    WORKERS,
    Differences,
    Loaded,
    Measured,
    Plain,
    Settings,
    processors,
)
from ...probes import kernel
from ...probes.waits import blocked_at
from ...wording.text import duration, many, percent, size
from ..attempt import Limits, Outcome

ALONE, AS_IT_IS, MEMORY, NOT_SHIPPED = "0 workers", "as it is", "from memory", "nothing sent"
LESS = 0.25  # a difference counts from here on, or from the noise of the two together, if that is more
TOTAL = 0.35  # of the limit of a rung: the rest is for imports, a measurement that takes longer, and judging
ON_PROCESSOR = 0.7  # of a sample's time
HALF = 0.4  # of what a sample takes as it is: measured apart, and on a machine with neighbours
SCALES = 0.75  # of what as many workers would give if they did not hinder each other
SPARE = 1.0  # processors that are free: one more worker can run


class Found(NamedTuple):
    """The verdict, and what it rests on."""

    measured: list[Measured] = []  # noqa: RUF012  (a NamedTuple's default, never changed)
    limit: str = ""
    seen: list[str] = []  # noqa: RUF012
    facts: Differences | None = None

    @property
    def sentence(self) -> str:
        own = as_it_is(self.measured)
        rate = f"{in_words(own.rate)} samples/s" if own is not None and own.rate else "no figure"
        words = LIMITS.get(self.limit, "not clear")
        if self.limit == HAND_OVER and own is not None and not own.workers:
            words = "collating batches"
        return f"{rate}; the limit is {words}"


LIMITS = {
    STORAGE: "reading",
    COMPUTING: "computing",
    HAND_OVER: "sending batches from the workers",
    WORKERS: "the number of workers",
    WAITING: "waiting",
    BALANCED: "no single part",
}


class Looks:
    """At the thread that loads, while it does so without workers: what it waits for."""

    def __init__(self, home: Path) -> None:
        self._facts = home / "facts.json"
        self.found: Counter[str] = Counter()

    def take(self) -> None:
        try:
            facts = json.loads(self._facts.read_bytes())
        except (OSError, ValueError):
            return
        if facts.get("variant") != ALONE:
            return
        waits = blocked_at(facts["pid"])
        seen = kernel.stat(facts["pid"])
        self.found[waits or ("page fault" if seen is not None and seen.state == "D" else PROCESSOR)] += 1

    def shares(self) -> dict[str, float]:
        total = sum(self.found.values())
        return {what: round(count / total, 3) for what, count in self.found.most_common(8)} if total else {}


def options(samples: list[Loaded], limits: Limits) -> dict[str, Any]:
    files = dict.fromkeys(path for one in samples for path in one.files)
    taken = sorted(one.seconds for one in samples)
    each = {"each": taken[len(taken) // 2]} if taken else {}
    return {"files": list(files), "total": limits.seconds * TOTAL, **each}


def found(outcome: Outcome, looks: Looks, settings: Settings, step: float | None) -> Found:
    measured = [_measured(one) for one in outcome.facts.get("measured", ())]
    facts = _facts(outcome.facts, looks, settings, step)
    limit, seen = limit_of(measured, facts)
    return Found(measured, limit, seen, facts)


def _measured(one: dict[str, Any]) -> Measured:
    known = {name: one[name] for name in Measured.__struct_fields__ if name in one}
    return Measured(**known)


def _facts(facts: dict[str, Any], looks: Looks, settings: Settings, step: float | None) -> Differences:
    alone, plain = facts.get("alone", {}), facts.get("plain") or {}
    profile = alone.get("profile") or {}
    user = profile.get("user")
    return Differences(
        seconds=_seconds(alone, facts.get("measured", ())),
        cpu=_cpu(alone, facts.get("measured", ())),
        asked=alone.get("asked", 0.0),
        fetched=alone.get("fetched", 0.0),
        blocked=alone.get("blocked"),
        system=alone.get("system", 0.0),
        waits=looks.shares(),
        looks=sum(looks.found.values()),
        function=profile.get("function", ""),
        share=profile.get("share", 0.0),
        where=Place(user["file"], user["line"], user["function"]) if user else None,
        plain=Plain(**plain) if plain else None,
        paths=facts.get("paths", []),
        batch=alone.get("batch"),
        processors=processors(settings),
        step=step,
    )


def _seconds(alone: dict[str, Any], measured: Sequence[dict[str, Any]]) -> float:
    """For a sample, by one thread: in the main process, or in a worker, if that is faster."""
    single = [1 / one["rate"] for one in measured if one["workers"] == 1 and one["name"] != MEMORY and one.get("rate")]
    return float(min([alone.get("seconds", 0.0), *single]))


def _cpu(alone: dict[str, Any], measured: Sequence[dict[str, Any]]) -> float:
    """Seconds of a processor for a sample: the least of all measurements that load. Neighbours only make it more."""
    whole = [one for one in measured if one["name"] not in (MEMORY, NOT_SHIPPED)]
    loading = [one for one in whole if one.get("rate") and one.get("processors")]
    return float(min([alone.get("cpu", 0.0), *(one["processors"] / one["rate"] for one in loading)]))


def named(measured: list[Measured], name: str) -> Measured | None:
    return next((one for one in measured if one.name == name and not one.failed), None)


def as_it_is(measured: list[Measured]) -> Measured | None:
    """A loader without workers is measured once: alone is as it is."""
    return named(measured, AS_IT_IS) or (None if _has_workers(measured) else named(measured, ALONE))


def _has_workers(measured: list[Measured]) -> bool:
    return any(one.name == AS_IT_IS for one in measured)


def faster(one: Measured | None, other: Measured | None) -> bool:
    """By more than chance, and by enough to matter."""
    if one is None or other is None or not one.rate or not other.rate:
        return False
    return one.rate / other.rate - 1 > max(LESS, one.noise + other.noise)


def limit_of(measured: list[Measured], facts: Differences) -> tuple[str, list[str]]:
    own, memory, kept = as_it_is(measured), named(measured, MEMORY), named(measured, NOT_SHIPPED)
    if own is None or not own.rate:
        return "", ["the loader could not be measured as it is"]
    seen = [f"as it is: {in_words(own.rate)} samples/s (± {percent(own.noise)}) with {many(own.workers, 'worker')}"]
    seen += [_against(one, own) for one in (memory, kept) if one is not None]
    apart = faster(kept, own) and (memory is None or not faster(memory, kept)) and faster(kept, memory or own)
    if apart and kept is not None and _collates(kept, own, facts):
        return COMPUTING, [*seen, f"without workers, where nothing is sent, {_cost(facts)}: in collate_fn"]
    if apart:
        return HAND_OVER, [*seen, "most is gained where nothing is sent: collating and sending batches is the limit"]
    if memory is not None and not faster(memory, own):
        return BALANCED, [*seen, "removing any one part of the work makes little difference"]
    seen.append(_cost(facts))
    return _of_loading(measured, own, facts, seen)


def _collates(kept: Measured, own: Measured, facts: Differences) -> bool:
    """Collating takes as long where nothing is sent: without workers."""
    collating = facts.seconds - max(kept.workers, 1) / kept.rate
    return collating >= HALF * max(own.workers, 1) / own.rate and facts.computing >= ON_PROCESSOR


def _of_loading(measured: list[Measured], own: Measured, facts: Differences, seen: list[str]) -> tuple[str, list[str]]:
    if facts.in_kernel:
        fetched = (
            f"{percent(facts.system)} of its CPU time is system calls, and {size(facts.fetched)} are read from the disk"
        )
        return STORAGE, [*seen, *_waits(facts), fetched]
    if facts.computing < ON_PROCESSOR:
        return (STORAGE if facts.reads else WAITING), [*seen, *_waits(facts)]
    one = named(measured, "1 worker")
    alone = own.workers <= 1 or one is None or own.rate >= SCALES * own.workers * one.rate
    spare = facts.processors - max(own.workers, 1)
    if alone and spare >= SPARE:
        more = f"{many(own.workers, 'worker')} compute on {facts.processors:g} CPU cores: more workers would be faster"
        return WORKERS, [*seen, more]
    return COMPUTING, seen


def _waits(facts: Differences) -> list[str]:
    most = [f"{percent(part)} blocked in {what}" for what, part in facts.waits.items() if what != PROCESSOR][:3]
    return [f"{many(facts.looks, 'sample')} of the loading thread: {', '.join(most)}"] if most else []


def _against(one: Measured, own: Measured) -> str:
    noise = one.noise + own.noise
    ratio = one.rate / own.rate
    if abs(ratio - 1) <= max(noise, 0.05):
        return f"{one.name}: {in_words(one.rate)} samples/s, no difference beyond noise"
    return f"{one.name}: {in_words(one.rate)} samples/s, {ratio:.3g} times as fast"


def _cost(facts: Differences) -> str:
    read = f", reads {size(facts.asked)}" if facts.asked >= 16 << 10 else ""
    return f"loaded alone, a sample takes {duration(facts.seconds)}, {duration(facts.cpu)} of it CPU time{read}"


def in_words(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
