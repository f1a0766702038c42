"""The run waits for a lock file that another process holds, or that will never be released.

## It means
Hugging Face datasets, hub and transformers lock files in their cache with the `filelock` library. Another process holds
the lock and is itself blocked or left over; or the cache lies on a network file system that does not support locks, or
keeps them for a client that is gone. A lock of the kernel ends with its process, so a leftover file alone blocks
nothing; a `SoftFileLock` is held for as long as its file exists.

## Fix
See what the holder is. If it belongs to this run, find out what it waits for; if it is left over, end it.
Put the cache on a local disk:

```sh
export HF_HOME=/local/disk/huggingface
```

Remove the file only if no process on any machine holds it. Let one rank prepare the data while the others wait:

```python
if rank == 0:
    load_dataset("corpus")
torch.distributed.barrier()        # NCCL times out after 10 min, unless init_process_group(timeout=...) says more
data = load_dataset("corpus")
```

## Check it yourself
```sh
py-spy dump --pid PID | head -5                      # _poll_until_acquired (filelock/_api.py)
lsof /path/to/cache/corpus.lock                      # which processes of this machine have it open
cat /proc/locks                                      # FLOCK or POSIX, with the pid that holds it
df -T /path/to/cache                                 # nfs, lustre: locks may not work there
```

## Not this, if
- rank 0 prepares the data, and the others wait for it: that is healthy while rank 0 reads, writes or computes
- torch waits for an extension's `lock` file: [filebaton-stale-lock](filebaton-stale-lock.md)
- several ranks time out while rank 0 prepares data: [main-process-first-timeout](main-process-first-timeout.md)

## How sure
Judged from a main thread that polls for a lock of the `filelock` library, which file that is, which process has it open
with a lock by the kernel's own word, and whether that process does anything. Sure that the run waits for this file. A
holder that reads, writes or computes is left alone: it is at work. The holder is *unknown* where not all processes can
be seen: other machines, other containers, other users.

## Seen in
- https://github.com/huggingface/datasets/issues/1672: load_dataset hangs; "[Errno 37] No locks available"
- https://github.com/huggingface/datasets/issues/3983: waits on DBFS forever, "not acquired ... waiting 0.05 seconds"
- https://github.com/huggingface/datasets/issues/6505: a cache in a shared folder; gone in a local one
- https://github.com/huggingface/datasets/issues/329: FileLock hangs on FSx for Lustre
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.culprits import calls, culprit, found
from ...analysis.stacks import LOCK_FILE, doing
from ...analysis.standstill import LONG, main_stack
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Awaited
from ...wording.printable import quoted
from ...wording.text import duration
from ..rule import rule

TEXTS = ("[Errno 37] No locks available", "not acquired on", "Attempting to acquire lock")


@rule(explains=Symptom.STUCK, certainty=Certainty.LIKELY, needs=("processes", "stacks"))
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack, lock = main_stack(case, seen.pid), seen.lock
        if stack is None or lock is None or doing(stack) != LOCK_FILE:
            continue
        one = culprit(case, seen, stack)
        if one.seconds < LONG or any(holder.moving for holder in lock.holders):
            continue
        ours = {each.pid for each in (*(case.processes or ()), *(case.recording or ()))}
        name = lock.name.rpartition("/")[2] or "a lock file"
        remedy, *others = _remedies(lock, ours)
        yield found(
            one,
            f"{one.name} is waiting for {name}, {_held(lock, ours)}.",
            [
                f"no progress for at least {duration(one.seconds)}",
                *(
                    f"pid {holder.pid} (`{holder.command}`, state {holder.state}) holds it, and was idle over a "
                    f"{duration(seen.looked)} sample"
                    for holder in lock.holders[:2]
                ),
                *(_file(lock)),
                *([f"the holder may not be visible: {lock.unseen}"] if lock.unseen and not lock.holders else ()),
                calls(one),
            ],
            remedy,
            case,
            Subject("file", lock.name) if lock.name else None,
            others,
        )
        return


def _file(lock: Awaited) -> Iterator[str]:
    age = f"{duration(lock.age)} old" if lock.age is not None else ""
    if lock.name:
        yield f"lock file: {lock.name}{', ' * bool(age)}{age}"
    elif age:
        yield f"the lock file is {age}"


def _held(lock: Awaited, ours: set[int]) -> str:
    if lock.holders:
        pid = lock.holders[0].pid
        return f"held by pid {pid}{' of this run' if pid in ours else ''}, which is idle"
    if lock.soft:
        return "which is held for as long as the file exists"
    return "and its holder is unknown" if lock.unseen else "which no process of this machine holds"


def _remedies(lock: Awaited, ours: set[int]) -> list[Remedy]:
    local = Remedy("Put the cache on a local disk; it is filled again.", ["export HF_HOME=/local/disk/huggingface"])
    if lock.holders and lock.holders[0].pid in ours:
        pid = lock.holders[0].pid
        return [
            Remedy(
                f"See what pid {pid} waits for: it belongs to this run, and has to release the lock.",
                [f"py-spy dump --pid {pid}"],
            )
        ]
    if lock.holders:
        pid = lock.holders[0].pid
        return [
            Remedy(f"See what pid {pid} is, and whether it is still needed.", [f"ps -fp {pid}"]),
            Remedy(f"End pid {pid}, if it is left over from an earlier run.", [f"kill {pid}"]),
            local,
        ]
    if lock.soft and lock.name:
        name = quoted(lock.name)
        return [
            Remedy("Find the process that made the file; newer versions write it into the file.", [f"cat {name}"]),
            Remedy("Remove the file, if that process has ended.", [f"rm {name}"]),
        ]
    return [
        Remedy(
            "Find the process that holds it, on every machine and in every container that uses this cache.",
            [f"lsof {quoted(lock.name)}"] if lock.name else [],
        ),
        local,
    ]
