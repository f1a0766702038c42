"""A rank preprocesses in its own process with one thread, because torchrun set `OMP_NUM_THREADS=1`.

## It means
torchrun sets `OMP_NUM_THREADS=1` for every rank if it starts more than one and the variable is not set: as many threads
as CPU cores in each rank would be too many. With `num_workers=0` the rank makes its batches itself, and torch then runs
every operation of the preprocessing on one core. Under plain `python` the same code uses all cores, so the same script
is slower under torchrun.

## Fix
Set `OMP_NUM_THREADS` to the node's CPU cores divided by its ranks, before `torchrun`, which then keeps it:
```sh
OMP_NUM_THREADS=8 torchrun --nproc-per-node 4 train.py  # 32 CPU cores, 4 ranks
```
Or set the threads in the rank that loads:
```python
torch.set_num_threads(8)
```
Or load in workers (`num_workers=1` or more). A worker computes with one thread, too, but while the rank trains.

## Check it yourself
In the training:
```python
print(os.environ.get("OMP_NUM_THREADS"), torch.get_num_threads())
```
Time the preprocessing alone, with one thread and with several:
```sh
OMP_NUM_THREADS=1 python -c "import train, time; t = time.time(); train.dataset[0]; print(time.time() - t)"
OMP_NUM_THREADS=8 python -c "import train, time; t = time.time(); train.dataset[0]; print(time.time() - t)"
```

## Not this, if
- the loader has workers that cannot keep up: [dataloader-bound](dataloader-bound.md)
- there are too many threads rather than too few: [cpu-oversubscription](cpu-oversubscription.md)
- the processes are pinned to few cores: [cpu-affinity-collapsed](cpu-affinity-collapsed.md)

## How sure
Judged from `OMP_NUM_THREADS` in a rank's environment and in that of its launcher when that was started, the threads
with which torch computes, how long the loop waits for batches made in the rank's own process (`num_workers=0`), how
much of two batches went into operations of torch that several threads would split, and how many of the CPU cores the
training uses. What set the variable is read from the launcher's own environment: a user's own `OMP_NUM_THREADS=1` is
left alone. It speaks only where half of the sampled loading or more is single operations of torch of 0.1 ms and longer,
of a kind that torch splits among threads: preprocessing in plain Python, numpy or Pillow gains nothing and is not
blamed. How much is gained was not measured in this run. Where the ranks keep the CPU cores busy as they are, one thread
is right; where other programs do, it says that more threads have to wait until those are gone.

## Seen in
- https://github.com/pytorch/pytorch/pull/22501: where the launcher got its default of one thread.
- https://github.com/pytorch/pytorch/issues/22260: too many threads for several ranks per node, the reason for it.
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
from ...wording.settings import settings
from ...wording.text import many, percent
from ..rule import rule

TEXTS = ("Setting OMP_NUM_THREADS environment variable for each process to be 1 in default",)

VARIABLE = "OMP_NUM_THREADS"
SHARED = 0.5  # of the loading that was sampled
IDLE = 0.25  # unused CPU cores: with less, a second thread would wait for the first
SPARE = 0.75  # of a CPU core for each rank that loads: with less, a second thread has nowhere to run
COMPUTES = 0.5  # of the wait for batches, on a CPU core or ready for one: else it is storage


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
    """The kernel's count of all its time: on a busy machine, a fetch alone has little of a CPU core."""
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
    room = idle is None or idle >= IDLE
    return case.finding(
        main,
        cause=f"torchrun set {VARIABLE}=1, and {'every rank' if loading > 1 else f'rank {main.rank}'} preprocesses "
        "in its own process with one thread.",
        seen=list(_seen(host, one, used, idle)),
        remedy=_remedy(case, threads, room=room),
        alternatives=_others(loader, threads, alone=loading == 1 and room),
        where=loader.reads_at or loader.created,
        subject=Subject("loader", loader.name),
    )


def _used(case: Case, host: Host, main: Process, loader: Loader) -> float | None:
    """CPU cores that the training kept busy, or would have, since this loader was first iterated."""
    here = [one for one in case.recording or () if one.node == host.node and one.role in ("main", "worker")]
    found = _meanwhile(host, here, main, loader)
    return sum((one.cpu + one.queued) / one.seconds for one in found) if found else None


def _meanwhile(host: Host, processes: list[Process], main: Process, loader: Loader) -> list[Use]:
    """While this rank iterated over its loader: what is done at the end of a run is no part of it."""
    looks = [
        one for one in host.samples if any(each.pid == main.pid and each.cpu is not None for each in one.processes)
    ]
    inside = [one for one in looks if one.at <= main.last_sign] or looks
    return uses(host, inside[-1], processes, since=loader.began or 0.0) if inside else []


def _seen(host: Host, one: Alone, used: float, idle: float | None) -> Iterator[str]:
    loader, shared = one.loader, one.shared
    yield f"{loader.name}: num_workers=0, waiting for data {percent(waiting(loader).share)} of the time"
    names = f" ({', '.join(shared.names)})" if shared.names else ""
    yield (
        f"{percent(shared.shared / shared.seconds)} of loading is torch operations that several threads would split"
        f"{names}: {shared.shared:.3g} of {shared.seconds:.3g} s in {many(shared.batches, 'sampled batch')}"
    )
    yield f"{VARIABLE} is 1 in the rank and was not set for its launcher; torch computes with 1 thread"
    left = f"; {idle:.1f} are idle" if (idle or 0.0) >= IDLE else "; other programs have the rest"
    yield f"the training uses {used:.1f} of {many(host.cpus, 'CPU core')}{'' if idle is None else left}"


def _remedy(case: Case, threads: int, *, room: bool) -> Remedy:
    """Threads that wait for each other while others have the CPU cores are slower than one."""
    command = quoted_line(case.run.command)
    setting = f"{VARIABLE}={threads}"
    text = f"Set {setting} for the launcher, which then keeps it"
    if not room:
        text = f"Free the CPU cores of other programs first, then set {setting}: threads that share cores are slower"
    return Remedy(text, [f"{setting} {command}" if command else f"export {setting}"])


def _others(loader: Loader, threads: int, *, alone: bool) -> list[Remedy]:
    own = Remedy("Set the threads in the rank that loads", code=[f"torch.set_num_threads({threads})"])
    worker = Remedy("Load in a worker, while the rank trains", code=[settings(loader, num_workers=1)])
    return [own, worker] if alone else [worker]
