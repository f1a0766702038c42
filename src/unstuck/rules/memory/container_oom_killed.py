"""The container or job hit its memory limit, and the kernel killed every process in it at once.

## It means
All processes of a container share one memory limit. When the limit is reached, the kernel's OOM killer kills: one
process, or all of them at once where the cgroup says so (`memory.oom.group`, which Kubernetes sets). A container also
dies as a whole when its first process is killed. Nothing inside is left to report it, so the run seems to have simply
stopped.

## Fix
Lower what the processes hold together. The evidence lists the largest: workers hold batches that wait
(`num_workers` x `prefetch_factor` x batch), shuffle buffers and caches.

```python
loader = DataLoader(dataset, batch_size=32, num_workers=8, prefetch_factor=4)  # before: 32 batches wait
loader = DataLoader(dataset, batch_size=32, num_workers=4, prefetch_factor=2)  # after: 8 batches wait
```

Or raise the limit:

```sh
docker run --memory=64g IMAGE
sbatch --mem=64G job.sh
kubectl set resources deployment/NAME --limits=memory=64Gi
```

## Check it yourself
```sh
kubectl describe pod NAME | grep -A5 'Last State'      # Reason: OOMKilled, Exit Code: 137
docker inspect NAME --format '{{.State.OOMKilled}} {{.State.ExitCode}}'
sacct -j JOB -o JobID,State,ExitCode,MaxRSS,ReqMem     # OUT_OF_MEMORY
journalctl -k | grep -i 'memory cgroup out of memory'  # on the host
```

## Not this, if
- one worker was killed and the main process reported it: [worker-oom-killed](worker-oom-killed.md)
- the main process alone was killed: [main-oom-killed](main-oom-killed.md)
- a time limit, preemption or eviction ended the job: [stopped-from-outside](stopped-from-outside.md)

## How sure
Judged from a run that was not seen to its end: the watcher's journal breaks off, no recorded process reported an exit,
and none is alive. Then from the journal's last samples: the limit of the memory cgroup, what was in use without page
cache, and the kernel's count of OOM kills, which is read once more afterwards where the cgroup still exists.
It is certain when the counter of the run's own cgroup moved after the last sample. Without a counter, memory must have
been within 5 % of the limit at the last sample, page cache not counted: a full page cache is normal and never enough.

## Seen in
- https://github.com/valeoai/DrivoR/issues/35: training in Kubernetes ended with OOMKill, exit code 137, after a day
- https://github.com/jupyter/docker-stacks/issues/736: notebooks in Kubernetes ended with exit code 137
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import SIGKILL, Case
from ...analysis.memory import kills_at_the_end
from ...evidence import Sample
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, size, who
from ..rule import rule
from ._room import higher_limit

TEXTS = (
    "OOMKilled",
    "exit code 137",
    "Some of your processes may have been killed by the cgroup out-of-memory handler",
    "OUT_OF_MEMORY",
)

NEARLY_FULL = 0.95  # samples are half a second apart: the last steps to the limit may fall between two of them


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording", "host"), outranks=("main-oom-killed",))
def check(case: Case) -> Iterator[Finding]:
    for host in case.host or ():
        here = [process for process in case.recording or () if process.node == host.node]
        samples = [sample for sample in host.samples if sample.processes] or host.samples
        if host.watcher_ended or host.processes_alive or not samples or not here:
            continue
        mains = [process for process in here if process.role != "worker"]
        if any(process.alive or process.ended is not None or process.failure for process in mains):
            continue
        exits = [seen for process in mains for seen in case.exits_of(process)]
        if any(seen.status != SIGKILL for seen in exits):  # it was not killed with the rest
            continue
        last = samples[-1]
        kills = kills_at_the_end(host).of_it
        near = last.limit is not None and last.used is not None and last.used >= NEARLY_FULL * last.limit
        if not kills and not near:
            continue
        yield case.finding(
            host,
            cause=_cause(last),
            seen=[
                *(kill.told() for kill in kills),
                *_use(last),
                f"the recording breaks off after {duration(last.at)}: no process reported its exit",
                *_largest(case, host.node, last),
            ],
            remedy=Remedy(
                "Lower what the processes hold together: num_workers, prefetch_factor, batch_size, shuffle buffers, "
                "caches."
            ),
            alternatives=[higher_limit(case, host)],
            onset_s=last.at,
        )


def _cause(last: Sample) -> str:
    if last.limit is None:
        return "The machine ran out of memory, and the kernel killed every process of the run."
    return f"The container or job hit its {size(last.limit)} memory limit, and the kernel killed every process in it."


def _use(last: Sample) -> Iterator[str]:
    if last.limit is not None and last.used is not None:
        yield f"{size(last.used)} of {size(last.limit)} were in use at the last sample, page cache not counted"
    elif last.total:
        yield f"{size(last.available)} of {size(last.total)} were left on the machine at the last sample"


def _largest(case: Case, node: str, last: Sample) -> Iterator[str]:
    for memory in sorted(last.processes, key=lambda held: held.anonymous, reverse=True)[:3]:
        process = case.process(node, memory.pid)
        if process is not None:
            forked = " (with what it shared since the fork)" if process.threads_at_fork is not None else ""
            yield f"{who(process)} held {size(memory.anonymous)}{forked}, and {size(memory.shared)} of shared memory"
