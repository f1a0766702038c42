"""Where a main thread was met while something took long: at which lines, and what it was blocked at."""

from __future__ import annotations

from collections import Counter

from .doing import place, user_frame
from .evidence import Evidence, Glance
from .places import Place
from .recorded import Process


def glances_of(evidence: Evidence, process: Process, begun: float = 0.0, ended: float = float("inf")) -> list[Glance]:
    """Between two moments of the run."""
    hosts = [one for one in evidence.host or () if one.node == process.node]
    return [one for host in hosts for one in host.glances if one.pid == process.pid and begun <= one.at <= ended]


def lines_of(glances: list[Glance]) -> list[tuple[Place, int]]:
    """The innermost lines of the user's that they met, the most frequent first."""
    found = [where for one in glances if (where := place(user_frame(one.frames))) is not None]
    return Counter(found).most_common()


def blocked_at(evidence: Evidence, process: Process, *kinds: str) -> float:
    """Share of the looks at which its main thread was blocked at one of these: `write terminal`, `write pipe` …"""
    seen = [
        memory.waits
        for host in evidence.host or ()
        if host.node == process.node
        for sample in host.samples
        for memory in sample.processes
        if memory.pid == process.pid
    ]
    return sum(one in kinds for one in seen) / len(seen) if seen else 0.0
