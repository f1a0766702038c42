"""Output that a terminal or a pipe takes too slowly: how often a main thread was seen waiting to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from .evidence import Evidence, Host
from .look import Frame
from .places import Place
from .questions import host_of, is_users
from .recorded import Process

TARGETS = {"write terminal": "the terminal", "write pipe": "a pipe", "write fifo": "a pipe"}
CALLERS = (("tqdm/", "tqdm"), ("/logging/__init__.py", "logging"), ("rich/", "rich"))
SHARE = 0.25  # of the looks: each is a moment, and one in four is no coincidence any more
BLOCKED = 4  # looks, for the same reason


class Writing(NamedTuple):
    """Of the looks at a main thread while it looped: in how many it waited for its output to be taken."""

    main: Process
    target: str
    blocked: int
    looks: int
    where: Place | None
    caller: str

    @property
    def share(self) -> float:
        return self.blocked / self.looks


def writing(evidence: Evidence) -> Iterator[Writing]:
    for main in evidence.mains():
        host, began = host_of(evidence, main), _began(main)
        if host is None or began is None:
            continue
        looks = [
            one.waits
            for sample in host.samples
            if began <= sample.at <= (main.ended or main.last_sign)
            for one in sample.processes
            if one.pid == main.pid
        ]
        blocked = [one for one in looks if one in TARGETS]
        if len(blocked) >= BLOCKED and len(blocked) >= SHARE * len(looks):
            stacks = _stacks(host, main)
            lines, callers = Counter(map(_line, stacks)), Counter(map(_caller, stacks))
            where = next((one for one, _ in lines.most_common() if one is not None), None)
            caller = next((one for one, _ in callers.most_common() if one), "")
            yield Writing(main, TARGETS[blocked[-1]], len(blocked), len(looks), where, caller)


def _began(main: Process) -> float | None:
    """When its first loop did."""
    return min((one.first_at or one.began or 0.0 for one in main.loaders if one.batches), default=None)


def _stacks(host: Host, main: Process) -> list[list[Frame]]:
    """Of all glances at it that found it writing. A look and a stack are a moment apart: what most show counts."""
    return [one.frames for one in host.glances if one.pid == main.pid and one.waits in TARGETS]


def _line(frames: list[Frame]) -> Place | None:
    places = [Place(one.file, one.line, one.function) for one in frames if not one.native]
    return next((one for one in places if is_users(one)), None)


def _caller(frames: list[Frame]) -> str:
    return next((name for one in frames for part, name in CALLERS if part in one.file), "")
