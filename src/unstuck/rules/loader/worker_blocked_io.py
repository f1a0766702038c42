"""A worker is blocked on something outside the run: a file, a FIFO, a connection, a command.

## It means
Reads have no timeout unless one is set. A network file system whose server is gone, a connection that was dropped
silently, a `curl` or `gsutil cat` in a pipe, a FIFO without a writer: reading from them blocks forever. The other
workers run dry, and with several ranks, all ranks wait for this one in the next collective.

## Fix
Give every reader a timeout, and try again when it expires.
```python
# before
data = requests.get(url).content

# after
data = requests.get(url, timeout=60).content
```
A command in a pipe, such as a shard that webdataset streams, can end itself when no bytes come:
```python
url = "pipe:curl -fsSL --connect-timeout 10 --speed-limit 1024 --speed-time 60 https://host/shard-000000.tar"
```
(`curl --retry` is not safe in a pipe: a second try sends the bytes again that were already read.) Network file systems
that are only read can be mounted `soft`: a read then fails instead of blocking. Keep hot data on a local disk.

## Check it yourself
What the worker is blocked on: its kernel function, its system call, and the files that it has open.
```sh
cat "/proc/$WORKER_PID/wchan"; echo
cat "/proc/$WORKER_PID/syscall"     # first number: the call (0 is read, 257 is openat); second: the descriptor in hex
ls -l "/proc/$WORKER_PID/fd"
```
Whether the storage answers, from outside the training:
```sh
timeout 10 head -c 1 "$FILE" | wc -c
```

## Not this, if
- it waits for a lock inside the process: [fork-inherited-lock](fork-inherited-lock.md)
- it computes without reading: [worker-infinite-loop](worker-infinite-loop.md)
- it reads, but slowly, and batches still come: [in-order-head-of-line](in-order-head-of-line.md),
  [slow-storage](slow-storage.md)
- it is stopped or frozen: [worker-stopped](worker-stopped.md)

## How sure
Judged from a worker that is inside a sample while the main process waits for it: its system call, what the descriptor
or path in that call points at, what is at the other end, and whether any byte moved between two samples. Certain that
this worker holds the run up, and what it waits for. A FIFO that no process has open for writing never answers. Whether
a command, a server or storage is dead or only slow cannot be seen from here: a command is *likely* dead after ten
seconds without a byte; a connection or a file is reported as *waiting*, after a minute.

## Seen in
- https://github.com/webdataset/webdataset/issues/308: `curl` in a pipe never ends after a network error, until the NCCL
  watchdog ends the run; flags of `curl` solved it.
- https://github.com/webdataset/webdataset/issues/112: `gsutil cat` of large shards breaks off in the middle of a
  training.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...analysis.case import Case
from ...analysis.culprits import Culprit, awaited, calls, culprit, found, state
from ...analysis.progress import pages_in
from ...analysis.standstill import LONG, asleep, fetchers, idles, in_futex, moves
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Awaited, Holder, Seen
from ...wording.printable import quoted
from ..rule import rule

A_MINUTE = 60.0  # seconds: longer than the usual pause between two tries
OUTSIDE = ("socket", "file", "other")  # a server or storage: it may only be slow
SLOW_KERNEL = "D"  # asleep in the kernel where not even SIGKILL wakes it: storage that does not answer


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for _, seen, stack in fetchers(case):
        awaits = _waits_for(case, seen)
        if awaits is None:
            continue
        one = culprit(case, seen, stack)
        answers = awaits.kind in OUTSIDE
        if one.seconds < (A_MINUTE if answers or any(map(_sleeps, awaits.holders)) else LONG):
            continue
        finding = found(
            one,
            f"{one.name} is blocked on {_short(awaits)}{_for_sample(one)}: {_why(seen, awaits)}.",
            [f"it waits for {awaited(awaits)}", state(one), calls(one), *_about(seen, awaits)],
            _remedy(one, awaits),
            case,
            Subject("command" if awaits.kind in ("pipe", "child") else awaits.kind, awaits.name),
            alternatives=_others(awaits),
        )
        yield msgspec.structs.replace(
            finding,
            symptom=(Symptom.WAITING if answers else Symptom.STUCK).value,
            certainty=(Certainty.CERTAIN if _has_no_writer(seen, awaits) else Certainty.LIKELY).value,
        )
        return


def _has_no_writer(seen: Seen, awaits: Awaited) -> bool:
    """The kernel does not even let it open the FIFO before a writer has it open."""
    return awaits.kind == "fifo" and seen.main_task.syscall in ("open", "openat")


def _sleeps(holder: Holder) -> bool:
    """The other side pauses on purpose, perhaps before it tries again."""
    return "nanosleep" in holder.wait_channel


def _waits_for(case: Case, seen: Seen) -> Awaited | None:
    """What its main thread waits for, if that lies outside and nothing of it moves."""
    task = seen.main_task
    if in_futex(task) or asleep(task) or not idles(task, seen.looked) or task.state not in ("S", "D"):
        return None
    awaits = task.awaits
    if awaits is None:
        unknown = Awaited(kind="other", name=f"storage ({task.wait_channel})")
        return unknown if task.state == SLOW_KERNEL and not pages_in(seen, task) else None
    if awaits.kind == "terminal" or any(holder.moving for holder in awaits.holders):
        return None
    below = [one for one in case.processes or () if one.parent == seen.pid]
    return None if any(moves(one) for one in below) or pages_in(seen, task) else awaits


def _short(awaits: Awaited) -> str:
    """The file alone, as long as it is a path; the whole is in the evidence."""
    if awaits.kind in ("pipe", "child") and awaits.holders:
        return f"`{awaits.holders[0].command}`"
    if awaits.kind in ("file", "fifo"):
        return f"{'FIFO' if awaits.kind == 'fifo' else 'file'} {awaits.name.rpartition('/')[2] or awaits.name}"
    return awaited(awaits)


def _why(seen: Seen, awaits: Awaited) -> str:
    if awaits.kind == "fifo":
        return "no writer" if _has_no_writer(seen, awaits) else "nothing is written to it"
    return "no answer" if awaits.kind == "socket" else "no data arrives"


def _for_sample(one: Culprit) -> str:
    return "" if one.sample is None else f" (sample {one.sample})"


def _about(seen: Seen, awaits: Awaited) -> list[str]:
    told = [f"system call: {seen.main_task.syscall}"] if seen.main_task.syscall else []
    told += [
        f"`{holder.command}` (pid {holder.pid}) at the other end is in state {holder.state}"
        f"{f' in {holder.wait_channel}' if holder.wait_channel else ''} and made no progress either"
        for holder in awaits.holders[:2]
    ]
    return told


def _remedy(one: Culprit, awaits: Awaited) -> Remedy:
    if awaits.kind == "fifo":
        return Remedy(
            "Start the program that writes to this FIFO, or remove it from the data", [f"ls -l {quoted(awaits.name)}"]
        )
    if awaits.kind == "socket":
        return Remedy(
            "Set a timeout on this connection, and try again when it expires",
            [f"ss -tnp | grep pid={one.seen.pid},"],
            code=["requests.get(url, timeout=60)"],
        )
    if awaits.kind in ("pipe", "child"):
        return Remedy(
            "Let the command end itself when no data arrives, and read the shard again",
            code=["curl -fsSL --connect-timeout 10 --speed-limit 1024 --speed-time 60 URL"],
        )
    tried = [f"timeout 10 head -c 1 {quoted(awaits.name)} | wc -c"] if awaits.kind == "file" else []
    return Remedy("Check whether the storage answers, outside the training", tried)


def _others(awaits: Awaited) -> list[Remedy]:
    if awaits.kind in ("pipe", "child"):
        return [Remedy("Limit any other command", code=["timeout 600 COMMAND"])]
    if awaits.kind in ("fifo", "socket"):
        return []
    return [Remedy("Keep data that is read often on a local disk, or mount a read-only network file system `soft`.")]
