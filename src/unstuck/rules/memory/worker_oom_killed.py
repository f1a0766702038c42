"""The kernel's OOM killer killed a DataLoader worker: the memory limit was reached.

## It means
Workers hold memory of their own: what `__getitem__` needs while it runs, batches that wait in the queue (`num_workers`
x `prefetch_factor` x batch), shuffle buffers, and copies of Python objects that were shared at the fork. Together with
the main process they reached the limit of the container, the job or the machine, and the kernel killed the largest. The
exception that the main process raises is no guide: the same kill surfaces as "killed by signal: Killed", as
ConnectionResetError or as EOFError, whichever comes first.

## Fix
If one sample is named, look at that sample: no setting of the loader makes it smaller. If the worker's memory grew from
batch to batch, find what the dataset keeps; smaller numbers only delay the kill:

```python
def __getitem__(self, index):
    self.cache[index] = self.read(index)  # before: grows without a limit, in every worker
    return self.cache[index]


def __getitem__(self, index):
    return self.read(index)  # after
```

Otherwise let fewer batches wait, or raise the limit (`docker run --memory`, `sbatch --mem`):

```python
loader = DataLoader(dataset, batch_size=4, num_workers=1, prefetch_factor=1)
```

## Check it yourself
```sh
journalctl -k | grep -i 'killed process'                       # needs the host's log
cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory.max     # in the container (cgroup v2)
watch -n 2 'ps -eo pid,ppid,rss,args --sort=-rss | head'       # do the workers grow from batch to batch?
```

## Not this, if
- the workers copy a large Python list by reading it: [cow-refcount-growth](cow-refcount-growth.md)
- the count of OOM kills did not move: [worker-killed](worker-killed.md)
- the worker crashed by a signal of its own: [worker-segfault](worker-segfault.md)
- the worker left by `os._exit`: [worker-exited-silently](worker-exited-silently.md)
- it was killed by SIGBUS, or /dev/shm was full: [shm-exhausted](shm-exhausted.md)

## How sure
Judged from the exit status of every worker and the kernel's own count of OOM kills in the training's memory cgroup:
whether it moved within seconds of the worker's death. The counts of cgroups above it and of the whole machine also move
for others, so they count only where memory was nearly full at that moment. The exception in the main process plays no
part. A worker killed by SIGKILL while that count moved is the kernel's own word for it. The rule stays silent when the
counters cannot be read, or moved at another time. A sample is named if memory rose four times as much with it as it
moved by with all samples before it.

## Seen in
- https://github.com/pytorch/pytorch/issues/8976: "killed by signal: Killed", solved by more memory or a smaller batch
- https://github.com/open-mmlab/mmrotate/issues/501: the same, gone with 24 instead of 16 GB of memory
- https://github.com/TorchSSL/TorchSSL/issues/4: the same; dmesg tells whether it was an OOM kill
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import SIGKILL, Case
from ...analysis.memory import COMFORTABLE, Large, Needs, held, in_hand, kept, kills_at, needs_of
from ...evidence import Host
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Process
from ...wording.settings import settings
from ...wording.text import duration, many, size, who
from ..rule import rule
from ._room import higher_limit, limit, reached

TEXTS = ("is killed by signal: Killed", "exited unexpectedly")

PREFETCH = 2  # torch's default


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording", "exits", "host"))
def check(case: Case) -> Iterator[Finding]:
    for seen, worker in case.abnormal_worker_exits:
        host = case.host_of(worker)
        if seen.status != SIGKILL or host is None:
            continue
        kills = kills_at(host, worker.pid, seen.at).of_it
        if not kills:
            continue
        owner, large = case.owner_of(worker.node, worker.pid), in_hand(host, worker)
        during = f" while it loaded sample {large.sample}" if large is not None else f": {reached(host)}"
        remedies, told = _remedies(case, host, worker, large)
        yield case.finding(
            worker,
            cause=f"{who(worker).capitalize()} was OOM-killed{during}.",
            seen=[
                *(kill.told() for kill in kills),
                f"killed (SIGKILL) after {duration(seen.at)}",
                *([_told(large)] if large is not None else ()),
                *_memory(host, worker),
                *told,
            ],
            remedy=remedies[0],
            alternatives=remedies[1:],
            onset_s=seen.at,
            where=owner.loader.created if owner else None,
            subject=Subject("sample", str(large.sample)) if large is not None else None,
        )
        return


def _told(large: Large) -> str:
    file = f" ({large.file})" if large.file else ""
    return (
        f"sample {large.sample}{file} had taken {size(large.grown)} or more; the {many(large.samples, 'sample')} "
        f"before it moved the worker's memory by {size(large.usual)} at most"
    )


def _memory(host: Host, worker: Process) -> Iterator[str]:
    last, most = host.samples[-1], limit(host)
    used = [sample.used for sample in host.samples if sample.used]
    if most and used:
        yield f"of the limit of {size(most)}, up to {size(max(used))} were in use, page cache not counted"
    elif last.total:
        least = min(sample.available for sample in host.samples)
        yield f"the machine has {size(last.total)} of memory; never less than {size(least)} were available"
    if (told := held(host, worker)) is not None:
        yield f"the worker held {told}"


def _remedies(case: Case, host: Host, worker: Process, large: Large | None) -> tuple[list[Remedy], list[str]]:
    """The remedies, the first first, and the numbers they follow from."""
    grew, owner, higher = kept(host, worker), case.owner_of(worker.node, worker.pid), higher_limit(case, host)
    if large is not None:
        file = f" ({large.file})" if large.file else ""
        first = Remedy(f"Read sample {large.sample}{file} in parts, make it smaller, or exclude it.")
        return [first, higher], ["fewer workers or batches ahead do not make that sample smaller"]
    if grew is not None:
        first = Remedy(
            f"Find what the dataset keeps from sample to sample: the worker grew from {size(grew[0])} to "
            f"{size(grew[1])} without levelling off."
        )
        return [first, higher], [
            "a worker that keeps growing reaches any limit: more memory or fewer workers only delay it"
        ]
    needs = needs_of(case, host, worker.pid) if owner is not None else None
    if owner is None or needs is None:
        return [Remedy("Let the workers hold less at once: fewer workers, fewer batches ahead."), higher], []
    return _by_numbers(case, host, needs, owner.loader)


def _by_numbers(case: Case, host: Host, needs: Needs, loader: Loader) -> tuple[list[Remedy], list[str]]:
    """Only what fits by what was measured, with that number."""
    ahead = loader.prefetch_factor or PREFETCH
    now, fitting = needs.of(loader.num_workers, ahead), needs.settings(loader.num_workers, ahead)
    parts = f"up to {size(needs.worker)} for each worker and {size(needs.batch)} for each batch that waits"
    if not needs.settled or now <= needs.limit:
        why = "the workers were still growing" if not needs.settled else "that does not add up to the limit"
        first = Remedy("Lower num_workers or batch_size, or make samples smaller.")
        return [first, higher_limit(case, host)], [f"which setting fits is not known: the run took {parts}, and {why}"]
    higher, told = higher_limit(case, host, above=now / COMFORTABLE), [f"the run took {parts}"]
    if fitting is None:
        least = settings(loader, num_workers=1, prefetch_factor=1)
        told.append(f"even {least} would take about {size(needs.of(1, 1))}")
        return [Remedy("Make samples smaller, or lower batch_size."), higher], told
    wanted = settings(loader, num_workers=fitting[0], prefetch_factor=fitting[1])
    return [
        Remedy(f"Use {wanted} (now {loader.num_workers} and {ahead}): about {size(needs.of(*fitting))} in all."),
        higher,
    ], told
