"""Loggers of the training: in which mode each was set up, calls that failed, and what each pass spent in them."""

from __future__ import annotations

import json
from collections.abc import Callable

from ..inside.format import APART, Kind
from ..recordings.decoder import Record
from ..recordings.tail import Tail
from ..wording.text import duration, many
from .line import DEBUG, ERROR, INFO, WARNING, Line

KINDS = ("logger", "http")
ONCE = ("wandb.init", "wandb.finish", "mlflow.start_run")  # no part of a pass
NOTICED = 0.5  # seconds: a call that takes that long holds the training up, whatever it did
SHARE = 0.05  # of the pass: so do many short ones


class Logging:
    """One rank's lines."""

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._spent: dict[str, list[float]] = {}  # by name: calls, seconds, longest; since a pass ended

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.LOGGER: self._set_up, Kind.CALL: self._called}

    def _set_up(self, one: Record) -> list[Line]:
        try:
            known = json.loads(self._tail.string(one.a))
        except ValueError:
            return []
        marker = f"{self.name} [{str(known.get('name')).upper()}]"
        at, where = self._tail.seconds(one.start), known.get("where") or {}
        place = f", set up at {str(where.get('file')).rpartition('/')[2]}:{where.get('line')}" if where else ""
        if "lost_at" in known:
            lost = known["lost_at"] or {}
            text = f"{marker} ⚠️ commit=False without a step overwrites values that were not stored yet"
            return [Line(at, WARNING, "logger", f"{text}: {lost.get('file')}:{lost.get('line')}", key=True)]
        folder = f", folder {known['folder']}" if known.get("folder") else ""
        server = f", server {known['address']}" if known.get("address") else ""
        text = f"{marker} Mode: {known.get('mode') or 'writes files'}{folder}{server}{place}"
        return [Line(at, INFO, "logger", text)]

    def _called(self, one: Record) -> list[Line]:
        what, _, rest = self._tail.string(one.key).partition(APART)
        name, *place = rest.split(APART)
        if what not in KINDS:
            return []
        if one.b:  # a note about one that failed
            spot = f" at {place[0]}:{place[1]}" if len(place) == 3 else ""
            text = f"{self.name} ✗ ERROR in {name}{spot}: {self._tail.string(one.b)}"
            return [Line(self._tail.seconds(one.end), ERROR, "logger", text)]
        if one.duration and name not in ONCE:  # without a duration it is only met
            spent = self._spent.setdefault(name, [0, 0.0, 0.0])
            seconds = one.duration / 1e9
            spent[:] = [spent[0] + 1, spent[1] + seconds, max(spent[2], seconds)]
        return []

    def ends(self, number: int, loader: int, at: float, lasted: float) -> list[Line]:
        """A pass has come to its end: what it spent."""
        spent, self._spent = self._spent, {}
        return [self._line(f"pass {number} over loader {loader}", at, lasted, *one) for one in spent.items()]

    def _line(self, which: str, at: float, lasted: float, name: str, spent: list[float]) -> Line:
        count, seconds, longest = spent
        blocked = longest >= NOTICED or seconds >= SHARE * lasted > 0
        told = f"blocked the training for {duration(seconds)}" if blocked else "non-blocking"
        text = f"{self.name} [LOGGER] {which}: {many(int(count), 'call')} of {name}, {duration(seconds)} in all, "
        text += f"{duration(longest)} at most ({told})"
        return Line(at, INFO if blocked else DEBUG, "logger", text, main=blocked)
