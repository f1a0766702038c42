"""Shared memory was full before the workers could be started.

## What it looks at
The exception with which a main process ended while it made a lock or a queue for its workers: the kernel's "no space
left on device", raised where Python makes a semaphore. And /dev/shm at that moment: its size, the files in it, and for
those that torch made whether the process that made them still lives.

## Why it happens
Semaphores and shared tensors lie in /dev/shm. A run that is killed leaves its files there (torch_*, sem.mp-*, psm_*),
and so does a library that shares data between processes. They stay until somebody deletes them or the machine restarts.
The disk has nothing to do with it, though the message reads that way.

## What to do
Delete the files whose processes are gone. Leave those of others, and enlarge /dev/shm if they need it. Space that
belongs to no file is held by processes that are alive: an earlier run that has not ended, or this very one.

## How sure it is
Sure that /dev/shm refused the space: Python makes semaphores nowhere else. That a file's process is gone is certain on
the machine itself; in a container, a number may belong to a process outside. Other files say nothing about their owner:
ask who has them open before deleting.
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

SEMAPHORES = "/multiprocessing/synchronize.py"
NO_SPACE = ("No space left on device", "[Errno 28]")
SHARING = "unable to allocate shared memory"  # torch, when a tensor is to be shared
HALF = 0.5  # of /dev/shm: what files of others take beyond that, this run did not fill
SHOWN = 3
DEAD, ALIVE, UNKNOWN, NO_FILE = "dead", "alive", "unknown", "no file"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for one in [one for one in fatal(case) if _refused(case, one)][:1]:
        total = one.failure.shm_size
        yield case.finding(
            one.process,
            cause=f"Shared memory was full before {_before(one)}: /dev/shm"
            + (f" of {size(total)}" if total else "")
            + f" has no room for {'a semaphore' if _semaphore(one.failure) else 'a tensor'}{_whose(one.failure)}.",
            seen=list(_seen(one)),
            remedy=_remedy(one),
            onset_s=one.failure.at,
            where=one.loader.created if one.loader is not None else None,
            subject=Subject("filesystem", "/dev/shm"),
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


def _before(one: Raised) -> str:
    if one.loader is not None and one.loader.now == LoaderState.STARTING:
        again = "" if one.loader.passes <= 1 else " again"
        return f"the workers of {one.loader.name} could be started{again}"
    return f"{who(one.process)} could start other processes"


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
        return ", because processes that are alive hold it"
    taken = size(sum(file.size for file in _held(failure)[kind]))
    whose = {DEAD: "left by processes that are gone", ALIVE: "of processes that are alive", UNKNOWN: "of others"}
    return f", because {taken} of it are files {whose[kind]}"


def _seen(one: Raised) -> Iterator[str]:
    failure = one.failure
    yield said(failure) + (", raised where Python makes semaphores, in /dev/shm" if _semaphore(failure) else "")
    if failure.shm_size is not None and failure.shm_free is not None:
        yield f"/dev/shm has {size(failure.shm_size)}, of which {size(failure.shm_free)} were free at that moment"
    yield from (_described(file) for file in failure.shm_files[:SHOWN] if file.size)
    if failure.shm_count > SHOWN:
        yield f"{many(failure.shm_count, 'file')} in all"
    if _most(failure) == NO_FILE:
        unlisted = _used(failure) - sum(file.size for file in failure.shm_files)
        yield f"{size(unlisted)} belong to no file: they were deleted, and are still open or mapped"


def _described(file: ShmFile) -> str:
    age = f", {duration(file.age)} old" if file.age >= 1 else ""
    owner = ""
    if file.owner is not None:
        owner = f", made by process {file.owner}, which is {'alive' if file.owner_alive else 'gone'}"
    return f"/dev/shm/{file.name}: {size(file.size)}{age}{owner}"


def _remedy(one: Raised) -> Remedy:
    kind, held = _most(one.failure), _held(one.failure)
    larger = f"enlarge /dev/shm, to {size(2 * (one.failure.shm_size or 0))} for a start"
    if kind == DEAD:
        shared = "Where a container shares /dev/shm with others, make sure first that the number is not one of theirs."
        delete = [f"rm /dev/shm/torch_{owner}_*" for owner in _owners(held[DEAD])]
        return Remedy(f"Delete what dead processes have left in /dev/shm, and start again. {shared}", delete)
    if kind == UNKNOWN:
        names = quoted_line(f"/dev/shm/{file.name}" for file in held[UNKNOWN][:SHOWN])
        left = "Ask who has these files open. If nobody has, a run that was killed left them: delete them"
        return Remedy(f"{left}. If somebody does, {larger}.", [f"fuser -v {names}"])
    hold = "Processes that are alive hold this memory: an earlier run that has not ended, another job, or tensors that "
    ask = ["lsof -a +L1 /dev/shm"] if kind == NO_FILE else [f"ps -fp {','.join(map(str, _owners(held[ALIVE])))}"]
    return Remedy(f"{hold}this run itself keeps. End what is not needed, or {larger}.", ask)


def _owners(files: list[ShmFile]) -> list[int]:
    return sorted({file.owner for file in files if file.owner is not None})
