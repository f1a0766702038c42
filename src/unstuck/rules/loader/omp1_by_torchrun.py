"""A rank loads its batches itself, and torchrun has left it one thread for that.

## What it looks at
`OMP_NUM_THREADS` in a rank's environment and in that of its launcher when that was started; the threads with which
torch computes; how long the loop waits for batches that are made in the rank's own process (`num_workers=0`); how much
of two batches went into operations of torch that several threads would share; and how many processors the training uses
of those it has.

## Why it happens
torchrun sets `OMP_NUM_THREADS=1` for every rank if it has more than one to start and nobody has set it: as many
threads as processors in each rank would be too many. Under plain `python` the same preprocessing uses all processors.

## What to do
Set `OMP_NUM_THREADS` to the node's processors divided by its ranks, in front of `torchrun`, which then leaves it alone;
or call `torch.set_num_threads` in the rank that loads; or load in workers.

## How sure it is
Who set the variable is read from the launcher's own environment: a user's own `OMP_NUM_THREADS=1` is left alone. It
speaks only where half of the looked-at loading or more is single operations of torch of 0.1 ms and longer, of a kind
that torch shares out among threads: preprocessing in plain Python, numpy or Pillow gains nothing and is not blamed. How
much is gained was not measured in this run. Where the ranks keep the processors busy as they are, one thread is right;
where other programs do, it says that more threads have to wait until those are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.loading import waiting
from ...analysis.passes import each_once
from ...analysis.processors import Use, idle_processors, uses
from ...evidence import Host
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process, Shared
from ...wording.printable import quoted_line
from ...wording.text import many, percent
from ..rule import rule

VARIABLE = "OMP_NUM_THREADS"
SHARED = 0.5  # of the loading that was looked at
IDLE = 0.25  # processors that nobody used: with less, a second thread would wait for the first
SPARE = 0.75  # of a processor for each rank that loads: with less, a second thread has nowhere to run
COMPUTES = 0.5  # of the time for which batches are waited for, on a processor or in want of one: else it is storage


class Alone(NamedTuple):
    """A rank that makes its batches with one thread."""

    main: Process
    loader: Loader
    shared: Shared


@rule(explains=Symptom.SLOW, certainty=Certainty.LIKELY, needs=("recording", "host"), applies_to_trials=True)
def check(case: Case) -> Iterator[Finding]:
    alone = [one for main, loader in case.loaders_in_use for one in _alone(case, main, loader)]
    yield from each_once(_judge(case, one, alone) for one in alone)


def _alone(case: Case, main: Process, loader: Loader) -> Iterator[Alone]:
    known = main.threads
    if loader.num_workers or known is None or VARIABLE not in known.by_launcher or known.threads != 1:
        return
    if known.variables.get(VARIABLE) != "1" or not waiting(loader).matters or not _computes(case, main, loader):
        return
    for one in known.shared:
        if one.loader == loader.number and one.shared >= SHARED * one.seconds > 0:
            yield Alone(main, loader, one)


def _computes(case: Case, main: Process, loader: Loader) -> bool:
    """The kernel's count of all its time: on a busy machine, a fetch alone has little of a processor."""
    host = case.host_of(main)
    found = _meanwhile(host, [main], main, loader) if host is not None else []
    return any((one.alone + one.queued) / one.seconds >= COMPUTES * waiting(loader).share for one in found)


def _judge(case: Case, one: Alone, alone: list[Alone]) -> Finding | None:
    main, loader, host = one.main, one.loader, case.host_of(one.main)
    used = _used(case, host, main, loader) if host is not None else None
    if host is None or not host.cpus or used is None:
        return None
    loading = len({other.main.pid for other in alone if other.main.node == main.node})
    spare = (host.cpus - used) / loading
    if spare < SPARE:
        return None
    idle = idle_processors(host, main.last_sign, loader.began or 0.0)
    ranks = sum(other.node == main.node for other in case.mains)
    threads = max(host.cpus // ranks, min(1 + round(spare), host.cpus))
    return case.finding(
        main,
        cause=f"{'Every rank' if loading > 1 else f'Rank {main.rank}'} makes the batches of {loader.name} "
        f"itself, with one thread: torchrun has set {VARIABLE}=1. {percent(one.shared.shared / one.shared.seconds)} of "
        "that work is operations of torch that several threads would share.",
        seen=list(_seen(host, one, used, idle)),
        remedy=_remedy(case, threads, several=loading > 1, room=idle is None or idle >= IDLE),
        where=loader.reads_at or loader.created,
        subject=Subject("loader", loader.name),
    )


def _used(case: Case, host: Host, main: Process, loader: Loader) -> float | None:
    """Processors that the training kept busy, or would have, since this loader was first gone through."""
    here = [one for one in case.recording or () if one.node == host.node and one.role in ("main", "worker")]
    found = _meanwhile(host, here, main, loader)
    return sum((one.cpu + one.queued) / one.seconds for one in found) if found else None


def _meanwhile(host: Host, processes: list[Process], main: Process, loader: Loader) -> list[Use]:
    """While this rank went through its loader: what is done at the end of a run is no part of it."""
    looks = [
        one for one in host.samples if any(each.pid == main.pid and each.cpu is not None for each in one.processes)
    ]
    inside = [one for one in looks if one.at <= main.last_sign] or looks
    return uses(host, inside[-1], processes, since=loader.began or 0.0) if inside else []


def _seen(host: Host, one: Alone, used: float, idle: float | None) -> Iterator[str]:
    yield f"{VARIABLE} is 1 in the rank, and was not set when its launcher was started; torch computes with 1 thread"
    names = f" ({', '.join(one.shared.names)})" if one.shared.names else ""
    yield (
        f"in {many(one.shared.batches, 'batch')} that were looked at, {one.shared.shared:.3g} of "
        f"{one.shared.seconds:.3g} s went into operations of 0.1 ms and longer{names}"
    )
    left = f"; {idle:.1f} had nothing to do" if (idle or 0.0) >= IDLE else "; other programs have the rest"
    rest = "" if idle is None else left
    yield f"the training wants {used:.1f} of {many(host.cpus, 'processor')}{rest}"
    yield f"num_workers is 0; the loop waits for data {percent(waiting(one.loader).share)} of the time"


def _remedy(case: Case, threads: int, *, several: bool, room: bool) -> Remedy:
    """Threads that wait for each other while others have the processors are slower than one."""
    command = quoted_line(case.run.command)
    own = "" if several else f", or call torch.set_num_threads({threads}) in the rank that loads"
    when = "Set" if room else "Once the training has the processors to itself (threads that share them are slower), set"
    return Remedy(
        f"{when} {VARIABLE}={threads} in front of the launcher, which then leaves it alone{own}. Or load beside the "
        "training, with num_workers=1 or more: a worker computes with one thread, too, but while the rank trains.",
        [f"{VARIABLE}={threads} {command}"] if command else [],
    )
