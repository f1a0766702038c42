"""Time in which a main thread stood in code of the user's and waited for something, rather than computed."""

from __future__ import annotations

from collections import Counter

from .between import OWN, Gap, Part
from .doing import USER, doing
from .evidence import Evidence
from .glancing import glances_of, lines_of
from .look import Stack
from .questions import host_of
from .recorded import Process

LOOKS = 2  # that met the main thread there
WAITED = 0.6  # of these looks, in which it waited for something
COMPUTING = ("futex", "sched_yield")  # how a thread looks that waits for torch's own threads


def own_waiting(evidence: Evidence, main: Process, gaps: list[Gap]) -> Part | None:
    """Of these gaps: those that nothing else is known of, if the main thread was mostly met waiting in them."""
    mine = [one for one in gaps if one.rest >= one.seconds / 2 and not _is_idle(evidence, main, one)]
    looks = [look for gap in mine for look in _looks(evidence, main, gap)]
    waited = [one for one in looks if one and one.partition(" ")[0] not in COMPUTING]
    if len(looks) < LOOKS or len(waited) < WAITED * len(looks):
        return None
    lines = lines_of([one for gap in mine for one in glances_of(evidence, main, gap.at, gap.at + gap.seconds)])
    name = Counter(waited).most_common(1)[0][0]
    return Part(OWN, _plainly(name), sum(one.rest for one in mine), len(mine), lines[0][0] if lines else None)


def _is_idle(evidence: Evidence, main: Process, gap: Gap) -> bool:
    """Somebody has to type: a prompt, a debugger, a notebook, or an event loop that nobody knows more of."""
    seen = glances_of(evidence, main, gap.at, gap.at + gap.seconds)
    if any(doing(Stack(main.pid, main.pid, frames=one.frames)) == USER for one in seen):
        return True
    looks = _looks(evidence, main, gap)
    return any(one.endswith(" terminal") or one.startswith("epoll") for one in looks)


def _looks(evidence: Evidence, main: Process, gap: Gap) -> list[str]:
    """What its main thread was blocked at, each time it was looked at; "": it ran."""
    host = host_of(evidence, main)
    samples = [one for one in (host.samples if host else ()) if gap.at <= one.at <= gap.at + gap.seconds]
    return [each.waits for one in samples for each in one.processes if each.pid == main.pid]


def _plainly(waits: str) -> str:
    call, _, kind = waits.partition(" ")
    if "nanosleep" in call:
        return "asleep"
    if call in ("wait4", "waitid"):
        return "waiting for a process"
    return f"waiting in {call}{f' for a {kind}' if kind else ''}"
