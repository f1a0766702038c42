"""Waits for a batch that stand out, and which worker, batch and sample each of them was for.

It takes the recordings of several processes: the loop's, which has the waits, and its workers', which have the fetches.
Processes of one node share a clock.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from ..evidence.loader import Loader, Spike
from ..evidence.process import Process
from ..inside import format as f
from ..inside.format import Kind
from .reader import Recording, Words

TIMES = 10.0  # the median wait: what is shorter belongs to the usual ups and downs
LONG = 0.5  # seconds: what is shorter nobody notices
MOST = 10  # that are kept with their details
MINE = 0.5  # of a wait that the fetch it was for fills at least
IDLE = 0.5  # of a wait in which another worker fetched at most, to be called idle in it

Shares = npt.NDArray[np.float64]
Open = Callable[[Process], Recording | None]


class Waits(msgspec.Struct, frozen=True):
    """One loader's waits that stand out: the longest first, each with the time in the run at which it began."""

    longest: list[tuple[float, list[int]]]
    spiked: float
    looped: float


def waits_of(recording: Recording, loader: Loader, at: Callable[[int], float]) -> Waits | None:
    """None: none stands out. The first batch of a pass is another matter: everything is started for it."""
    rows = recording.events(Kind.WAIT, loader.number)
    later = rows[rows[:, f.R_A] > 0]
    if not len(later) or loader.num_workers < 2:
        return None
    times = later[:, f.R_DURATION] / 1e9
    out = times > max(LONG, TIMES * float(np.median(times)))
    if not out.any():
        return None
    spikes = later[out]
    longest = spikes[np.argsort(spikes[:, f.R_DURATION])[::-1]][:MOST].tolist()
    looped = float(times.sum() + later[:, f.R_C].sum() / 1e9)
    return Waits([(at(row[f.R_START]), row) for row in longest], float(times[out].sum()), looped)


def with_spikes(loader: Loader, waits: Waits, workers: list[Process], reading: Open) -> Loader:
    """`reading` opens a worker's recording again."""
    opened = [(one, found) for one in workers if (found := reading(one)) is not None]
    fetches = [(one, found, found.events(Kind.FETCH)) for one, found in opened]
    crews = [_crew(loader, workers, at) for at, _ in waits.longest]
    spikes = [
        _spike(at, row, [one for one in fetches if one[0].pid in crew])
        for (at, row), crew in zip(waits.longest, crews, strict=True)
    ]
    return msgspec.structs.replace(loader, spikes=spikes, spiked=waits.spiked, spiked_of=waits.looped)


def _crew(loader: Loader, workers: list[Process], at: float) -> list[int]:
    """Workers of the iterator that was waited for: the newest that were started by then. Those before it are gone."""
    born = {one.pid: one.started if one.started is not None else one.opened for one in workers}
    for end in range(len(loader.pids), 0, -loader.num_workers):
        pids = loader.pids[max(end - loader.num_workers, 0) : end]
        if min((born[pid] for pid in pids if pid in born), default=at + 1) <= at:
            return pids
    return []


def _spike(at: float, row: list[int], fetches: list[tuple[Process, Recording, Words]]) -> Spike:
    start, end = row[f.R_START], _end(row)
    spike = Spike(at=at, seconds=(end - start) / 1e9, batch=row[f.R_A])
    shares = [_overlaps(rows, start, end) for _, _, rows in fetches]
    # Of those that fill the wait and were done before it ended, the last: another slow one may go on beyond it.
    done = [
        (_end(fetch), number, fetch)
        for number, (_, _, rows) in enumerate(fetches)
        for fetch in rows[shares[number] >= MINE].tolist()
        if _end(fetch) <= end
    ]
    if not done:
        return spike
    _, number, fetch = max(done)
    worker, recording, _ = fetches[number]
    index, seconds = _slowest(recording, fetch)
    return msgspec.structs.replace(
        spike,
        worker=worker.worker,
        pid=worker.pid,
        fetch_seconds=fetch[f.R_DURATION] / 1e9,
        index=index,
        sample_seconds=seconds,
        idle=sum(_idles(shares[at], rows, end) for at, (_, _, rows) in enumerate(fetches) if at != number),
    )


def _end(fetch: list[int]) -> int:
    return fetch[f.R_START] + fetch[f.R_DURATION]


def _overlaps(rows: Words, start: int, end: int) -> Shares:
    """What part of the time from start to end each fetch fills."""
    begins = rows[:, f.R_START].astype(np.int64)
    ends = begins + rows[:, f.R_DURATION].astype(np.int64)
    shares: Shares = np.maximum(np.minimum(ends, end) - np.maximum(begins, start), 0) / (end - start)
    return shares


def _idles(shares: Shares, rows: Words, end: int) -> bool:
    """One that has fetched nothing before only starts, or its records are gone: it is not called idle."""
    return bool(shares.sum() < IDLE and (rows[:, f.R_START] < end).any())


def _slowest(recording: Recording, fetch: list[int]) -> tuple[int | None, float]:
    """The sample of this fetch that took longest."""
    rows = recording.events(Kind.SAMPLE)
    mine = rows[(rows[:, f.R_START] >= fetch[f.R_START]) & (rows[:, f.R_START] < _end(fetch))]
    if not len(mine):
        return None, 0.0
    row = mine[int(mine[:, f.R_DURATION].argmax())].tolist()
    index = row[f.R_A]
    return (None if index == f.MASK else index), row[f.R_DURATION] / 1e9
