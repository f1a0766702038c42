"""What one rank says of its part in a distributed run: its group, its model, where it waits for the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..inside import format as f
from ..inside.format import Kind
from ..recordings.decoder import Entry, Record
from ..recordings.tail import Tail
from ..wording.text import duration
from .line import DEBUG, ERROR, INFO, Line

MARKER = "[DISTRIBUTED]"
MOMENT = 1.0  # seconds: a wait that takes longer is told while it goes on
BLOCKS = ("Join", "main_process_first", "local_main_process_first")  # in which a rank does its own work
TOLD = 1024  # places whose first passing was told; a program that makes up lines has no more of them told
FAILED = 2


class Wait(NamedTuple):
    """A span that goes on, and was told."""

    key: int
    since: int


class Distributed:
    """One rank's lines."""

    def __init__(self, tail: Tail) -> None:
        self.name = ""  # how the process is called in its lines
        self._tail = tail
        self._waits: set[Wait] = set()
        self._passed: set[int] = set()

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]:
        return {Kind.GROUP: self._group, Kind.WRAPPED: self._wrapped, Kind.SPAN: self._span}

    def waits(self, board: list[Entry], now: float, *, final: bool) -> list[Line]:
        """Spans that go on. At the end of the process, however short they have been."""
        lines = []
        for one in board:
            at = self._tail.seconds(one.since) + MOMENT
            if one.kind == Kind.SPAN and one.a and (at <= now or final):
                lines += self._waiting(one.key, one.since, min(at, now))
        return lines

    def _waiting(self, key: int, since: int, at: float) -> list[Line]:
        name, place = self._named(key)
        if Wait(key, since) in self._waits:
            return []
        self._waits.add(Wait(key, since))
        if name in BLOCKS:
            return [self._line(at, "🔍", f"{name}{place}: in it", INFO)]
        return [self._line(at, "🔄", f"{name}{place}: waiting ...", INFO)]

    def _span(self, one: Record) -> list[Line]:
        name, place = self._named(one.key)
        at, took = self._tail.seconds(one.end), duration(one.duration / 1e9)
        long = one.duration / 1e9 >= MOMENT
        lines = self._waiting(one.key, one.start, self._tail.seconds(one.start) + MOMENT) if long else []
        told = Wait(one.key, one.start) in self._waits
        self._waits.discard(Wait(one.key, one.start))
        if one.a:
            return [*lines, self._line(at, "❌", f"{name}{place}: failed after {took}", ERROR)]
        word = "left" if name in BLOCKS else "passed"
        if told or self._is_first(one.key):
            lines.append(self._line(at, "✅", f"{name}{place}: {word} after {took}", INFO if told else DEBUG))
        return lines

    def _is_first(self, key: int) -> bool:
        if key in self._passed or len(self._passed) >= TOLD:
            return False
        self._passed.add(key)
        return True

    def _group(self, one: Record) -> list[Line]:
        known = self._facts(one.a)
        where = _place(known.get("where"))
        address = f", {known['address']}" if known.get("address") else ""
        if one.b == 0:
            text = f"process group{where}: waiting for all ranks to come{address}"
            return [self._line(self._tail.seconds(one.start), "🔄", text, INFO)]
        at, took = self._tail.seconds(one.end), duration(one.duration / 1e9)
        if one.b == FAILED:
            return [self._line(at, "❌", f"process group{where}: could not be made, after {took}{address}", ERROR)]
        limit = f", time-out {duration(known['timeout'])}" if known.get("timeout") else ""
        text = f"process group{where}: {known.get('backend')}, rank {known.get('rank')} of {known.get('world')}"
        lines = [self._line(at, "✅", f"{text}{address}{limit}, made in {took}", INFO)]
        variables = ", ".join(f"{name}={value}" for name, value in (known.get("variables") or {}).items())
        return [*lines, self._line(at, "🔍", f"set in the environment: {variables}", INFO)] if variables else lines

    def _wrapped(self, one: Record) -> list[Line]:
        known = self._facts(one.a)
        options = [name for name in ("find_unused_parameters", "static_graph") if known.get(name)]
        text = f"{known.get('kind')}{_place(known.get('where'))}: {known.get('parameters')} parameters with a gradient"
        more = "".join(f", {name}=True" for name in options)
        return [self._line(self._tail.seconds(one.end), "🔍", text + more, INFO)]

    def _line(self, at: float, sign: str, text: str, level: str) -> Line:
        rank = self._tail.header[f.H_RANK]
        whose = f" rank {rank - 1} -" if rank else ""
        return Line(at, level, "distributed", f"{self.name} {sign} {MARKER}{whose} {text}", key=level == ERROR)

    def _named(self, key: int) -> tuple[str, str]:
        """barrier, and " at train.py:40"."""
        name, *place = self._tail.string(key).split("\n")
        return name, f" at {place[0].rpartition('/')[2]}:{place[1]}" if len(place) >= 2 else ""

    def _facts(self, string: int) -> dict[str, Any]:
        try:
            known = json.loads(self._tail.string(string))
        except ValueError:
            return {}
        return known if isinstance(known, dict) else {}


def _place(known: dict[str, Any] | None) -> str:
    return f" at {str(known.get('file')).rpartition('/')[2]}:{known.get('line')}" if known else ""
