"""Why workers ran out of memory, and settings that would have fitted, by the numbers of the run itself. Bytes."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence, Host, Sample
from .growing import born_with, climb, looks_at
from .recorded import Fetching, Process

LOADING = "loading a sample"
SAMPLES = 8  # loaded before: fewer do not tell what is usual
TIMES = 4  # as much as memory moved by with all samples before: by that much one is far larger
NOTABLE = 0.1  # of the limit
SLIGHT = 16 << 20  # bytes by which the memory of any worker moves
LOOKS = 6  # of memory that grows: fewer may be one large batch in the making
BATCHES = 4  # made while it grew, for the same reason
ENOUGH = 8  # batches of each worker: before, its memory still grows
LEVEL = 1.05  # times what it took before: looks come at any moment of a batch
COMFORTABLE = 0.85  # of the limit: the numbers are those of looks twice a second


class Large(NamedTuple):
    """The sample that was being loaded, for which memory rose far more than for all before it."""

    sample: int | str
    file: str  # empty: not known
    grown: int  # at least
    usual: int  # most that memory moved by while the others were loaded
    samples: int  # how many these were


class Needs(NamedTuple):
    """What a run took, each part by itself: what does not depend on the workers, a worker, a batch that waits."""

    limit: int
    base: int
    worker: int
    batch: int
    ranks: int
    settled: bool  # the workers take no more than after half of their batches: else they would have gone on growing

    def of(self, workers: int, prefetch: int) -> int:
        return self.base + self.ranks * (workers * self.worker + (workers * prefetch + 1) * self.batch)

    def fits(self, workers: int, prefetch: int) -> bool:
        return self.of(workers, prefetch) <= COMFORTABLE * self.limit

    def settings(self, workers: int, prefetch: int) -> tuple[int, int] | None:
        """As many workers as fit, then as many batches ahead. None: none fit, or it cannot be known."""
        if not self.settled:
            return None
        some = ((fewer, ahead) for fewer in range(workers, 0, -1) for ahead in range(prefetch, 0, -1))
        return next((one for one in some if self.fits(*one)), None)


def limit_of(sample: Sample) -> tuple[int, int]:
    """The limit and what is in use: of the smallest cgroup, else of the machine."""
    if sample.limit is not None and sample.used is not None:
        return sample.limit, sample.used
    return sample.total, sample.total - sample.available


def in_hand(host: Host, worker: Process) -> Large | None:
    """The sample that its worker was killed with, if that is what took the memory."""
    now = worker.fetching[0] if worker.fetching else None
    if now is None or now.now != LOADING or now.index is None or now.samples < SAMPLES:
        return None
    looks = [one for one in looks_at(host, worker.pid, "anonymous", since=worker.first_sample or 0.0) if one[1]]
    before = [value for at, value in looks if at < now.now_since]
    last = _last_look(host, worker.pid)
    if len(before) < 2 or last is None:
        return None
    usual = max(before) - min(before)
    during = max((value for at, value in looks if at >= now.now_since), default=before[-1]) - before[-1]
    grown = max(during, _unseen(worker.pid, last, usual))
    if grown < TIMES * max(usual, SLIGHT) or grown < NOTABLE * limit_of(last)[0]:
        return None
    return Large(now.index, _file(worker, now), grown, usual, now.samples)


def _unseen(pid: int, last: Sample, usual: int) -> int:
    """What it took after the last look, at least: all that was left then, but for what the others may have taken.

    The kernel ends the largest: where so much makes any process the largest, it was this one that took it.
    """
    limit, used = limit_of(last)
    grown = limit - used - usual * (len(last.processes) - 1)
    held = next(one for one in last.processes if one.pid == pid)
    return grown if grown > held.anonymous + held.files + held.shared else 0


def _file(worker: Process, now: Fetching) -> str:
    """What a reader was given for this very sample, where the recording has it."""
    read = [one.item for one in worker.slowest if one.item and one.at >= now.now_since - 0.01]
    return read[-1] if read else ""


def kept(host: Host, worker: Process) -> tuple[int, int] | None:
    """Memory that a worker allocated and did not give back from batch to batch: from, to.

    What it copies of its parent's is not among it: that was counted from the beginning.
    """
    now, last = worker.fetching[0] if worker.fetching else None, _last_look(host, worker.pid)
    if now is None or now.batches < BATCHES or last is None:
        return None
    until = now.now_since if now.now == LOADING else None
    looks = looks_at(host, worker.pid, "anonymous", since=worker.first_sample or 0.0, until=until)
    looks = [one for one in looks if one[1]]
    rising, third = climb(looks, LOOKS), len(looks) // 3
    if rising is None or rising.grown < NOTABLE * limit_of(last)[0]:
        return None
    values = [value for _, value in looks]
    least = [min(values[:third]), min(values[third:-third]), min(values[-third:])]
    return (values[0], values[-1]) if least[0] < least[1] < least[2] else None


def needs_of(evidence: Evidence, host: Host, pid: int) -> Needs | None:
    """By the last look at the run before this worker died. None: too little was seen."""
    last = _last_look(host, pid)
    workers = [one for one in evidence.recording or () if one.role == "worker" and one.node == host.node]
    alive = {one.pid: one.anonymous for one in last.processes} if last is not None else {}
    crew = [one for one in workers if one.pid in alive]
    if last is None or not crew:
        return None
    born = {one.pid: born_with(host, one) for one in crew}
    limit, used = limit_of(last)
    first = next((one for one in host.samples if one.shm_free is not None), last)
    shm = max((first.shm_free or 0) - (last.shm_free or 0), 0)
    most = [max(value for _, value in looks_at(host, one.pid, "anonymous")) - born[one.pid] for one in crew]
    most += [value for one in crew for _, value in looks_at(host, one.pid, "own")]
    base = used - shm - sum(max(alive[one.pid] - born[one.pid], 0) for one in crew)
    batches = [batch.storage for one in crew for fetching in one.fetching for batch in fetching.handed]
    ranks = {owner.main.pid for one in crew if (owner := evidence.owner_of(one.node, one.pid)) is not None}
    batch = max(batches, default=0)  # its samples are all there before it is put together, whatever the looks saw
    settled = all(_settled(host, one, born[one.pid]) for one in crew)
    return Needs(limit, max(base, 0), max(*most, batch), batch, max(len(ranks), 1), settled)


def _settled(host: Host, worker: Process, born: int) -> bool:
    """After eight batches of 94 MB a worker was seen to take twice what it took after two: allocators leave holes."""
    made = sum(one.batches for one in worker.fetching)
    values = [value - born for _, value in looks_at(host, worker.pid, "anonymous") if value]
    half = len(values) // 2
    return made >= ENOUGH and half > 0 and max(values[half:]) <= LEVEL * max(*values[:half], SLIGHT)


def _last_look(host: Host, pid: int) -> Sample | None:
    seen = [one for one in host.samples if any(held.pid == pid and held.anonymous for held in one.processes)]
    return seen[-1] if seen else None
