"""The kernel's OOM killer killed the main training process itself, not one of its workers.

## It means
The memory limit of the container, the job or the machine was reached, and the main process was the largest. It usually
grows by a dataset that is held in memory, batches that wait to be used, losses or outputs that are stored with their
autograd graph, or a checkpoint that is put together in memory. The shell prints `Killed`, torchrun `exitcode: -9`;
Python itself prints nothing.

## Fix
Look at how its memory went. Steady growth points to something that is kept at every step:

```python
losses.append(loss)  # before: keeps each step's graph
losses.append(loss.item())  # after: keeps a number
```

A sudden jump points to one large allocation: read the file in parts, map it (`np.load(path, mmap_mode="r")`,
`torch.load(path, mmap=True, weights_only=True)`), or save in shards. Or raise the limit:

```sh
docker run --memory=64g IMAGE
sbatch --mem=64G job.sh
```

## Check it yourself
```sh
journalctl -k | grep -i 'killed process'         # needs the host's log
cat /sys/fs/cgroup/memory.events                 # oom_kill, in the container (cgroup v2)
watch -n 5 'ps -eo pid,rss,args --sort=-rss | head'      # while it runs: RSS in KiB
```

## Not this, if
- each step's graph is kept: [graph-accumulation](graph-accumulation.md) says so while it grows
- a worker was killed: [worker-oom-killed](worker-oom-killed.md)
- everything was killed at once: [container-oom-killed](container-oom-killed.md)
- it was SIGKILL without an OOM kill, by a scheduler or a person: [main-killed](main-killed.md)
- the GPU is out of memory, with a Python traceback: [cuda-out-of-memory](cuda-out-of-memory.md)

## How sure
Judged from the exit status of every main process, as its parent or the watcher saw it, and from the kernel's count of
OOM kills in its memory cgroup: whether it moved within seconds of that death. Counts of cgroups above it, or of the
whole machine, count only where memory was nearly full at that moment. Where nothing imports torch, the status of the
command itself is used: SIGKILL, or 137, which a shell gives when what it had started was killed.
Certain when the process was killed by SIGKILL and the count of OOM kills moved at that moment. With exit code 137 it is
likely. Silent otherwise.

## Seen in
- https://github.com/open-mmlab/mmdetection/issues/6452: training in a Docker container ends with "Killed"
- https://github.com/CASIA-LMC-Lab/AnomalyGPT/issues/43: DeepSpeed's launcher reports return code -9; host memory was
  too small
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import COMMAND, SIGKILL, Case
from ...analysis.memory import kills_at, looks_at
from ...evidence import Host
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Process
from ...wording.text import duration, size, who
from ..rule import rule
from ._room import higher_limit, reached

TEXTS = (
    "Killed",
    "exit code 137",
    "exitcode: -9",
    "exits with return code = -9",
    "Signal 9 (SIGKILL) received by PID",
    "died with <Signals.SIGKILL: 9>",
)

SHELL_KILLED = 137  # 128 + SIGKILL


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("exits", "host"))
def check(case: Case) -> Iterator[Finding]:
    for seen in sorted(case.exits or (), key=lambda ended: ended.at):
        process = case.process(seen.node, seen.pid, seen.at) or case.unrecorded_command(seen)
        if process is None or process.role not in ("main", COMMAND) or not _killed(process, seen.status):
            continue
        host, name = case.host_of(process), who(process) if process.role == "main" else "the command"
        kills = kills_at(host, process.pid, seen.at).of_it if host is not None else []
        if host is None or not kills:
            continue
        ending = "killed (SIGKILL)" if seen.status == SIGKILL else f"exited with code {seen.status}"
        yield case.finding(
            process,
            cause=f"{name[:1].upper()}{name[1:]} was OOM-killed: {reached(host)}.",
            seen=[*(kill.told() for kill in kills), f"{ending} after {duration(seen.at)}", *_growth(host, process.pid)],
            remedy=Remedy("Lower what it holds: losses and outputs that are kept, an in-memory dataset, batch_size."),
            alternatives=[higher_limit(case, host)],
            onset_s=seen.at,
            certainty="" if seen.status == SIGKILL else Certainty.LIKELY.value,
        )
        return


def _killed(process: Process, status: int) -> bool:
    """A shell tells it by its exit code."""
    return status == SIGKILL or (process.role == COMMAND and status == SHELL_KILLED)


def _growth(host: Host, pid: int) -> Iterator[str]:
    looks = [value for _, value in looks_at(host, pid, "anonymous") if value]
    if looks:
        yield (
            f"its memory went from {size(looks[0])} to {size(looks[-1])} between the first and the last sample, mapped "
            "files and shared memory not counted"
        )
