"""Where main threads were met while something took long: at which lines, and what they were blocked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ..evidence import Glance, Host
from ..evidence.basics import Place
from ..evidence.live import Frame, Stack
from ..evidence.loader import OWN, Gap, Part
from ..evidence.process import Process
from .case import Case, is_users
from .stacks import USER, doing, place, user_frame

# Where a main thread was met while something took long: at which lines, and what it was blocked at.


def glances_of(case: Case, process: Process, begun: float = 0.0, ended: float = float("inf")) -> list[Glance]:
    """Between two moments of the run."""
    hosts = [one for one in case.host or () if one.node == process.node]
    return [one for host in hosts for one in host.glances if one.pid == process.pid and begun <= one.at <= ended]


def lines_of(glances: list[Glance]) -> list[tuple[Place, int]]:
    """The innermost lines of the user's that they met, the most frequent first."""
    found = [where for one in glances if (where := place(user_frame(one.frames))) is not None]
    return Counter(found).most_common()


def blocked_at(case: Case, process: Process, *kinds: str) -> float:
    """Share of the looks at which its main thread was blocked at one of these: `write terminal`, `write pipe` …"""
    seen = [
        memory.waits
        for host in case.host or ()
        if host.node == process.node
        for sample in host.samples
        for memory in sample.processes
        if memory.pid == process.pid
    ]
    return sum(one in kinds for one in seen) / len(seen) if seen else 0.0


# Time in which a main thread stood in code of the user's and waited for something, rather than computed.
LOOKS = 2  # that met the main thread there
WAITED = 0.6  # of these looks, in which it waited for something
COMPUTING = ("futex", "sched_yield")  # how a thread looks that waits for torch's own threads


def own_waiting(case: Case, main: Process, gaps: list[Gap]) -> Part | None:
    """Of these gaps: those that nothing else is known of, if the main thread was mostly met waiting in them."""
    mine = [one for one in gaps if one.rest >= one.seconds / 2 and not _is_idle(case, main, one)]
    looks = [look for gap in mine for look in _looks(case, main, gap)]
    waited = [one for one in looks if one and one.partition(" ")[0] not in COMPUTING]
    if len(looks) < LOOKS or len(waited) < WAITED * len(looks):
        return None
    lines = lines_of([one for gap in mine for one in glances_of(case, main, gap.at, gap.at + gap.seconds)])
    name = Counter(waited).most_common(1)[0][0]
    return Part(OWN, _plainly(name), sum(one.rest for one in mine), len(mine), lines[0][0] if lines else None)


def _is_idle(case: Case, main: Process, gap: Gap) -> bool:
    """Somebody has to type: a prompt, a debugger, a notebook, or an event loop that nobody knows more of."""
    seen = glances_of(case, main, gap.at, gap.at + gap.seconds)
    if any(doing(Stack(main.pid, main.pid, frames=one.frames)) == USER for one in seen):
        return True
    looks = _looks(case, main, gap)
    return any(one.endswith(" terminal") or one.startswith("epoll") for one in looks)


def _looks(case: Case, main: Process, gap: Gap) -> list[str]:
    """What its main thread was blocked at, each time it was looked at; "": it ran."""
    host = case.host_of(main)
    samples = [one for one in (host.samples if host else ()) if gap.at <= one.at <= gap.at + gap.seconds]
    return [each.waits for one in samples for each in one.processes if each.pid == main.pid]


def _plainly(waits: str) -> str:
    call, _, kind = waits.partition(" ")
    if "nanosleep" in call:
        return "asleep"
    if call in ("wait4", "waitid"):
        return "waiting for a process"
    return f"waiting in {call}{f' for a {kind}' if kind else ''}"


# Output that a terminal or a pipe takes too slowly: how often a main thread was seen waiting to write.
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


def writing(case: Case) -> Iterator[Writing]:
    for main in case.mains:
        host, began = case.host_of(main), _began(main)
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
