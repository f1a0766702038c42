"""/dev/shm was full before the workers could be started.

## It means
Semaphores and shared tensors lie in /dev/shm. A run that is killed leaves its files there (`torch_*`, `sem.mp-*`,
`psm_*`), and so may a library that shares data between processes. They stay until they are deleted or the machine
restarts. The disk has nothing to do with it, though "No space left on device" reads that way.

## Fix
Delete the files whose processes are gone:

```sh
ls -l /dev/shm                      # torch_26190_…: the number is the process that made it
ps -p 26190 || rm /dev/shm/torch_26190_*
```

Leave those of others, and enlarge /dev/shm if they need it (`docker run --shm-size=8g`, or `sudo mount -o
remount,size=8G /dev/shm`). Space that belongs to no file is held by live processes: an earlier run that has not ended,
or this very run.

## Check it yourself
```sh
df -h /dev/shm
ls -lS /dev/shm | head
fuser -v /dev/shm/*                 # which processes have these files open
lsof -a +L1 /dev/shm                # deleted files that are still held
```

## Not this, if
- it filled up while training, by the run's own batches: [shm-exhausted](shm-exhausted.md)
- a checkpoint met "No space left on device": [checkpoint-disk-full](checkpoint-disk-full.md)

## How sure
Judged from the exception with which a main process ended while it made a lock or a queue for its workers: the kernel's
"no space left on device", raised where Python makes a semaphore. And from /dev/shm at that moment: its size, the files
in it, and for those that torch made whether the process that made them is still alive.
Certain that /dev/shm refused the space: Python makes semaphores nowhere else. That a file's process is gone is certain
on the machine itself; in a container, a number may belong to a process outside. Other files say nothing about their
owner: see what has them open before deleting them.

## Seen in
- https://github.com/NVIDIA/Megatron-LM/issues/878: SemLock fails in a container; gone with a larger --shm-size
- https://github.com/Plachtaa/VITS-fast-fine-tuning/issues/397: the same at the start, though the disk has room
- https://github.com/aigc-apps/sd-webui-EasyPhoto/issues/90: /dev/shm was full, the disk was not
- https://github.com/python/cpython/issues/93253: the message says nothing about /dev/shm
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.failures import Raised, fatal
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import LoaderState
from ...evidence.process import Failure, ShmFile
from ...wording.printable import quoted_line
from ...wording.text import duration, many, said, size, who
from ..rule import Level, rule
from ._room import larger_shm

TEXTS = ("OSError: [Errno 28] No space left on device", "sl = self._semlock = _multiprocessing.SemLock(")

SEMAPHORES = "/multiprocessing/synchronize.py"
NO_SPACE = ("No space left on device", "[Errno 28]")
SHARING = "unable to allocate shared memory"  # torch, when a tensor is to be shared
HALF = 0.5  # of /dev/shm: what files of others take beyond that, this run did not fill
SHOWN = 3
DEAD, ALIVE, UNKNOWN, NO_FILE = "dead", "alive", "unknown", "no file"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in fatal(case) if _refused(case, one)][:1]:
        remedy, *others = _remedies(case, one)
        yield case.finding(
            one.process,
            cause=f"/dev/shm is full{_whose(one.failure)}: {_prevented(one)}.",
            seen=list(_seen(one)),
            remedy=remedy,
            alternatives=others,
            onset_s=one.failure.at,
            where=one.loader.created if one.loader is not None else None,
            subject=Subject("filesystem", "/dev/shm"),
            saw=said(one.failure),
        )


def _refused(case: Case, one: Raised) -> bool:
    """In a main process: a semaphore, or a tensor that was to be shared before any worker was there to fill it."""
    failure = one.failure
    if one.process.role == "worker" or not any(word in failure.message for word in NO_SPACE):
        return False
    if _semaphore(failure):
        return True
    started = any(loader.pids for loader in one.main.loaders)
    return SHARING in failure.message and not started and _foreign(case, failure) > HALF * (failure.shm_size or 0)


def _semaphore(failure: Failure) -> bool:
    return bool(failure.frames) and failure.frames[-1].file.endswith(SEMAPHORES)


def _foreign(case: Case, failure: Failure) -> int:
    own = {process.pid for process in case.recording or ()}
    return sum(file.size for file in failure.shm_files if file.owner not in own)


def _prevented(one: Raised) -> str:
    if _starting(one):
        again = "" if one.loader is None or one.loader.passes <= 1 else " again"
        return f"workers could not start{again}"
    return f"{who(one.process)} could not start other processes"


def _starting(one: Raised) -> bool:
    return one.loader is not None and one.loader.now == LoaderState.STARTING


def _held(failure: Failure) -> dict[str, list[ShmFile]]:
    """The files that take space, by what is known of who made them."""
    held: dict[str, list[ShmFile]] = {DEAD: [], ALIVE: [], UNKNOWN: []}
    for file in failure.shm_files:
        if file.size:
            held[UNKNOWN if file.owner is None else ALIVE if file.owner_alive else DEAD].append(file)
    return held


def _most(failure: Failure) -> str:
    """What takes most of the space: files of one of these kinds, or memory that has no file any more."""
    sizes = {kind: sum(file.size for file in files) for kind, files in _held(failure).items()}
    listed = sum(sizes.values())
    if failure.shm_count == len(failure.shm_files) and listed < HALF * _used(failure):
        return NO_FILE
    return max(sizes, key=lambda kind: sizes[kind])


def _used(failure: Failure) -> int:
    return (failure.shm_size or 0) - (failure.shm_free or 0)


def _whose(failure: Failure) -> str:
    """What takes most of it, in one clause."""
    kind = _most(failure)
    if kind == NO_FILE:
        return ", held by live processes"
    taken = size(sum(file.size for file in _held(failure)[kind]))
    whose = {DEAD: "of leftovers from dead processes", ALIVE: "of live processes' files", UNKNOWN: "of other files"}
    return f" {whose[kind]} ({taken})"


def _seen(one: Raised) -> Iterator[str]:
    failure = one.failure
    yield f"it had no room for {'a semaphore, which Python makes there' if _semaphore(failure) else 'a tensor'}"
    if failure.shm_size is not None and failure.shm_free is not None:
        yield f"/dev/shm has {size(failure.shm_size)}, of which {size(failure.shm_free)} were free at that moment"
    yield from (_described(file) for file in failure.shm_files[:SHOWN] if file.size)
    if failure.shm_count > SHOWN:
        yield f"{many(failure.shm_count, 'file')} in all"
    if _most(failure) == NO_FILE:
        unlisted = _used(failure) - sum(file.size for file in failure.shm_files)
        yield f"{size(unlisted)} belong to no file: they were deleted, and are still open or mapped"
    if one.loader is not None and _starting(one):
        yield f"loader: {one.loader.name}"


def _described(file: ShmFile) -> str:
    age = f", {duration(file.age)} old" if file.age >= 1 else ""
    owner = ""
    if file.owner is not None:
        owner = f", made by pid {file.owner}, which is {'alive' if file.owner_alive else 'gone'}"
    return f"/dev/shm/{file.name}: {size(file.size)}{age}{owner}"


def _remedies(case: Case, one: Raised) -> list[Remedy]:
    kind, held = _most(one.failure), _held(one.failure)
    larger = larger_shm(case, case.host_of(one.process), one.failure.shm_size)
    if kind == DEAD:
        delete = [f"rm /dev/shm/torch_{owner}_*" for owner in _owners(held[DEAD])]
        left = Remedy("Delete what dead processes left, unless another container shares this /dev/shm.", delete)
        return [left, *larger]
    if kind == UNKNOWN:
        names = quoted_line(f"/dev/shm/{file.name}" for file in held[UNKNOWN][:SHOWN])
        open_by = Remedy("See what has these files open, and delete them only if nothing does.", [f"fuser -v {names}"])
        return [open_by, *larger]
    ask = ["lsof -a +L1 /dev/shm"] if kind == NO_FILE else [f"ps -fp {','.join(map(str, _owners(held[ALIVE])))}"]
    holders = Remedy("See which processes hold it: stop what is left of earlier runs, wait for other jobs.", ask)
    return [holders, *larger]


def _owners(files: list[ShmFile]) -> list[int]:
    return sorted({file.owner for file in files if file.owner is not None})
