"""Whether a process was at work in some stretch of time, by what its node was seen to do and by what it recorded."""

from __future__ import annotations

from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.progress import helped, moves_itself
from ...analysis.standstill import asleep, descendants, main_stack, moves
from ...evidence import Memory
from ...evidence.loader import LoaderState
from ...evidence.process import Process

BUSY = 0.5  # of a CPU core, on average
READ = 1 << 20  # bytes a second: a process that reads that much makes progress, however little it computes
RECENT = 0.25  # of the stretch, its end: what was done in it was still going on
YOUNG = 1.0  # seconds of samples: fewer say nothing


class Work(NamedTuple):
    """What a process, with its recorded children, did between two moments, at least."""

    cpu: float  # seconds of CPU time
    queued: float  # seconds in which its main thread was ready to run, and others had the core
    read: int  # bytes
    seconds: float  # in which that was seen
    signs: bool  # it recorded something of its own doing near the end
    moved: bool  # a look at it found it, or a child of its, moving
    blocked: bool  # a look found it waiting for something, and not in a sleep of its own choosing

    @property
    def busy(self) -> bool:
        seen = self.seconds >= YOUNG
        computes, reads = self.cpu + self.queued >= BUSY * self.seconds, self.read >= READ * self.seconds
        return (seen and (computes or reads)) or self.signs or self.moved


def work(case: Case, process: Process, begin: float, end: float) -> Work:
    family = [one for one in case.on_node(process.node) if process.pid in (one.pid, one.parent)]
    parts = [_used(case, one, begin, end) for one in family]
    recent = end - RECENT * (end - begin)
    return Work(
        cpu=sum(one.cpu for one in parts),
        queued=sum(one.queued for one in parts),
        read=sum(one.read for one in parts),
        seconds=max((one.seconds for one in parts), default=0.0),
        signs=any(recent < _sign(one) <= end for one in family),
        moved=_moved(case, process),
        blocked=_blocked(case, process),
    )


class _Used(NamedTuple):
    """The same of one process, by the samples of its node."""

    cpu: float = 0.0
    queued: float = 0.0
    read: int = 0
    seconds: float = 0.0


def _used(case: Case, process: Process, begin: float, end: float) -> _Used:
    host = case.host_of(process)
    seen = [(one.at, each) for one in (host.samples if host else ()) for each in one.processes if _is(each, process)]
    inside = [one for one in seen if begin < one[0] <= end]
    if not inside:
        return _Used()
    at, last = inside[-1]
    before = max((one for one in seen if one[0] <= begin), key=lambda one: one[0], default=None)
    if before is None:  # what it may have used before this stretch is left aside
        used = (last.cpu or 0.0) + (last.queued or 0.0) - max(begin - process.opened, 0.0)
        cpu = min(last.cpu or 0.0, max(used, 0.0))
        return _Used(cpu, max(used - cpu, 0.0), 0, at - begin)
    since, first = before
    return _Used(
        cpu=(last.cpu or 0.0) - (first.cpu or 0.0),
        queued=(last.queued or 0.0) - (first.queued or 0.0),
        read=(last.read or 0) - (first.read or 0),
        seconds=at - since,
    )


def _is(memory: Memory, process: Process) -> bool:
    return memory.pid == process.pid and memory.cpu is not None


def _sign(process: Process) -> float:
    """The newest thing it has recorded that is no waiting: for other ranks, or for a batch."""
    told = [*(one.since for one in process.progress), *(one.since for one in process.stages_now)]
    batches = [one.now_since for one in process.loaders if one.now == LoaderState.IN_BODY]
    fetched = [one.now_since for one in process.fetching]
    saved = [one.at + one.seconds for one in process.saved]
    return max([*told, *batches, *fetched, *saved], default=-1.0)


def _moved(case: Case, process: Process) -> bool:
    own = next((one for one in case.processes or () if one.pid == process.pid), None)
    stack = main_stack(case, process.pid)
    if own is None:
        return False
    if stack is None:
        return any(moves(one) for one in (own, *descendants(case, own.pid)))
    return moves_itself(own, stack) or helped(case, own, stack)


def _blocked(case: Case, process: Process) -> bool:
    own = [one for one in case.processes or () if one.pid == process.pid]
    return bool(own) and not _moved(case, process) and not asleep(own[0].main_task)
