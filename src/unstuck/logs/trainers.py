"""Trainers of frameworks: what each was told to do, how its epochs went, and what was left out of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..inside.format import Kind
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from ..wording.text import duration, many
from .line import DEBUG, INFO, WARNING, Line

MARKER = "🔍 [TRAINER]"


class Trainers:
    """One rank's lines."""

    KINDS = (Kind.FRAMEWORK,)

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._known: dict[int, dict[str, Any]] = {}

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.FRAMEWORK: self._told}

    def _told(self, one: Record) -> list[Line]:
        """At its beginning, when its data is known, after each epoch, and at its end."""
        try:
            told = json.loads(self._tail.string(one.a))
        except ValueError:
            return []
        known = self._known.setdefault(one.key, {})
        before = dict(known)
        known.update({name: value for name, value in told.items() if value is not None})
        at = self._tail.seconds(one.end)
        if one.duration:
            return self._ended(at, known, one.duration / 1e9)
        if "name" in told:
            return self._began(at, known)
        if "announced" in told:
            return self._announced(at, known)
        return self._epoch(at, known, before) if "epochs" in told else []

    def _began(self, at: float, known: dict[str, Any]) -> list[Line]:
        where = known.get("where") or {}
        place = f" at {where.get('file')}:{where.get('line')}" if where else ""
        data = f", DataModule {known['data']}" if known.get("data") else ""
        first = (
            f"{known['name']} {known.get('version', '')} ({known.get('package')}): Trainer.{known.get('what')}{place}"
        )
        settings = ", ".join(f"{name}={value}" for name, value in (known.get("settings") or {}).items())
        callbacks = "; ".join(_callback(one) for one in known.get("callbacks") or ())
        texts = [f"{first}, model {known.get('module')}{data}", f"- settings: {settings}"]
        texts.append(f"- callbacks: {callbacks or 'none'}")
        if known.get("hooks"):
            texts.append(f"- hooks of {known.get('module')} itself: {', '.join(known['hooks'])}")
        texts += [f"- {one} of {known.get('module')} does nothing" for one in known.get("empty") or ()]
        sanity = (known.get("settings") or {}).get("num_sanity_val_steps")
        if known.get("what") == "fit" and known.get("validates") and sanity:
            texts.append("- the first validation is a sanity check, before any training")
        return [Line(at, INFO, "trainer", f"{self.name} {MARKER} {text}") for text in texts]

    def _announced(self, at: float, known: dict[str, Any]) -> list[Line]:
        batches, after = known.get("announced"), known.get("validates_after")
        count = f"{many(batches, 'batch')} are announced for an epoch" if batches else "an epoch has no known length"
        unit = "batch" if known.get("name") == "Lightning" else "step"
        validates = f"it validates after {unit} {after:,}" if after else "it validates at the end of an epoch"
        told = validates if known.get("validates") else "it does not validate"
        return [Line(at, INFO, "trainer", f"{self.name} {MARKER} - {count}; {told}")]

    def _epoch(self, at: float, known: dict[str, Any], before: dict[str, Any]) -> list[Line]:
        came, announced = known.get("delivered"), known.get("announced")
        of = f" of {announced:,} announced" if announced else ""
        batches = f", {came:,}{of} batches" if came is not None else ""
        validations = f"{many(known.get('validations', 0), 'validation')} so far"
        text = f"{self.name} [TRAINER] epoch {known['epochs'] - 1} is through{batches}, {validations}"
        if known.get("missed", 0) <= before.get("missed", 0):
            return [Line(at, DEBUG, "trainer", text, main=False)]
        text += ": ⚠️ the batch at which it validates never came, and no validation was made"
        return [Line(at, WARNING, "trainer", text, key=True)]

    def _ended(self, at: float, known: dict[str, Any], seconds: float) -> list[Line]:
        parts = [f"{many(known[name + 's'], name)}" for name in ("epoch", "validation") if known.get(name + "s")]
        counts = f": {', '.join(parts)}" if parts else ""
        text = f"{self.name} {MARKER} Trainer.{known.get('what')} is over after {duration(seconds)}{counts}"
        return [Line(at, INFO, "trainer", text)]


def _callback(one: dict[str, Any]) -> str:
    hooks = one.get("hooks") or []
    return f"{one.get('name')} ({', '.join(hooks)})" if hooks else str(one.get("name"))
