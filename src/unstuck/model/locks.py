"""What kind of lock a thread waits for, and who could have held it at a fork."""

from __future__ import annotations

from .doing import user_frame
from .evidence import Evidence
from .look import Frame, Seen, Stack
from .standing import LONG, idles, in_futex, is_machinery, main_stack, nobody_else, other_stacks, recorded, standing

# Functions of the interpreter that wait for a lock, in one version or another.
ACQUIRING = ("PyThread_acquire_lock", "lock_PyThread_acquire", "rlock_acquire", "PyMutex_Lock", "acquire_timed")
POOLS = ("libgomp", "libiomp", "libomp", "libmkl")
PLAIN = ("libc.", "libc-", "libpthread", "libpython", "python", "ld-linux", "ld-musl")


def forked_into_a_wait(evidence: Evidence) -> list[tuple[Seen, Stack]]:
    """Forked processes whose main thread waits for a lock without limit, while no other thread of theirs could help."""
    found = []
    for seen in evidence.processes or ():
        stack = main_stack(evidence, seen.pid)
        if stack is None or not seen.forked or seen.ended:
            continue
        task = seen.main_task
        waits = in_futex(task) and not task.limited and idles(task, seen.looked)
        if waits and nobody_else(evidence, seen) and standing(evidence, seen, stack) >= LONG:
            found.append((seen, stack))
    return found


def native_top(stack: Stack) -> list[Frame]:
    """Native calls below the innermost of Python's."""
    found = []
    for frame in stack.frames:
        if not frame.native:
            break
        found.append(frame)
    return found


def in_thread_pool(stack: Stack) -> Frame | None:
    """The call into a library's pool of threads, if that is where it waits."""
    return next((one for one in native_top(stack) if _library(one).startswith(POOLS)), None)


def is_python_lock(stack: Stack) -> bool:
    """The interpreter itself waits: by its functions' names, or, where there are none, by nobody else being there."""
    top = native_top(stack)
    if any(name in one.function for one in top for name in ACQUIRING):
        return True
    return bool(top) and all(_library(one).startswith(PLAIN) for one in top)


def is_buffer_lock(stack: Stack) -> bool:
    """The lock inside a buffered file object: waited for by a write, not by a lock object of anybody's."""
    calls = stack.calls
    if not calls:
        return False
    logs = "logging/__init__.py" in calls[0].file and calls[0].name in ("flush", "emit")
    return logs or any("buffered" in one.function for one in native_top(stack))


def other_threads(evidence: Evidence, seen: Seen) -> list[str]:
    """Threads of its parent that could have held a lock at the fork: those there now, else those there at the time."""
    now = {one.name: _name(one) for one in other_stacks(evidence, seen.parent) if not is_machinery(one)}
    process = recorded(evidence, seen)
    then = [name for name in (process.thread_names_at_fork if process is not None else []) if not _is_theirs(name)]
    return list({**{name: name for name in then}, **now}.values())[:4]


def _is_theirs(name: str) -> bool:
    """A thread of multiprocessing or torch, by the name it gives it."""
    return name == "QueueFeederThread" or name.endswith(("(_serve)", "(_pin_memory_loop)", "(_handle_results)"))


def same_lock(seen: Seen, waiting: list[Seen]) -> list[Seen]:
    """Brothers that wait at the same address: they have it from their parent."""
    address = seen.main_task.futex
    return [one for one in waiting if address and one.main_task.futex == address and one.pid != seen.pid]


def _name(stack: Stack) -> str:
    """The thread with the user's function that it is in."""
    inner = next((one for one in stack.calls if user_frame([one]) is not None and not one.name.startswith("<")), None)
    return f"{stack.name or stack.tid} ({inner.name})" if inner is not None else str(stack.name or stack.tid)


def _library(frame: Frame) -> str:
    return frame.file.rpartition("/")[2]
