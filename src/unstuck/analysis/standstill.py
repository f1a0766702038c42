"""Which processes stand still and for how long, what was at work meanwhile, and which locks are waited for."""

from __future__ import annotations

from ..evidence.live import Frame, Rounds, Seen, Stack, Task, own_calls
from ..evidence.loader import Fetching
from ..evidence.process import Process
from .case import Case, once
from .stacks import (
    BUILDING,
    ENDING,
    GPU,
    LOCK_FILE,
    TRAINING,
    WAITING,
    doing,
    fetch_of,
    is_idle_worker,
    meets,
    place,
    user_frame,
)

# Who stands still, for how long, and whether anything at all gets on.
LONG = 10.0  # seconds without any sign of life or progress before it counts as standing: the stall clock's own least
BUSY = 0.5  # of a core
TICK = 0.02  # seconds of processor time: below, the kernel's own counting shows
POLLING = 0.03  # of a core: what a loop costs that asks every so many milliseconds whether something has changed
ASKING = (LOCK_FILE, BUILDING, ENDING)
# Threads of torch, multiprocessing and the like.
MACHINERY = (
    "_feed", "_serve", "_pin_memory_loop", "_monitor_loop", "_handle_results", "_handle_tasks", "_handle_workers",
)  # fmt: skip


def main_stack(case: Case, pid: int) -> Stack | None:
    return next((one for one in case.stacks or () if one.pid == pid and one.is_main), None)


def other_stacks(case: Case, pid: int) -> list[Stack]:
    return [one for one in case.stacks or () if one.pid == pid and not one.is_main]


@once
def mains(case: Case) -> list[tuple[Seen, Stack]]:
    """Live main processes with what their main threads do."""
    seen = [one for one in case.processes or () if one.role == "main" and not one.ended]
    pairs = [(one, main_stack(case, one.pid)) for one in seen]
    return [(one, stack) for one, stack in pairs if stack is not None]


def workers(case: Case, main: Seen) -> list[Seen]:
    """Its own, and those that a fork server has for it."""
    below = descendants(case, main.pid)
    return [one for one in case.processes or () if one.role == "worker" and (one in below or one.parent == main.pid)]


def children(case: Case, pid: int) -> list[Seen]:
    return [one for one in case.processes or () if one.parent == pid and not one.ended]


def descendants(case: Case, pid: int) -> list[Seen]:
    found = children(case, pid)
    for one in found:
        found += children(case, one.pid)
    return found


def computes(task: Task, looked: float) -> bool:
    """It ran, or would have if the machine had let it, most of the time."""
    return looked > 0 and task.cpu > TICK and task.cpu + task.queued > BUSY * looked


def idles(one: Seen | Task, looked: float) -> bool:
    """It used no processor to speak of, and read and wrote nothing, between the looks."""
    return one.cpu <= max(TICK, POLLING * looked) and not one.read and not one.written


def moves(seen: Seen) -> bool:
    return not idles(seen, seen.looked)


def gets_on(seen: Seen) -> bool:
    """Something of it grew: what it has read or written, its memory, the pages it has touched."""
    grown = seen.anonymous_grown > 0 or seen.files_grown > 0 or seen.shared_grown > 0
    return seen.read > 0 or seen.written > 0 or grown


def recorded(case: Case, seen: Seen) -> Process | None:
    """What it wrote down, if it is there. At a look that was taken while it stood still, and kept, it was."""
    then = case.stall is not None and case.run.status is not None and not seen.ended
    process = case.process(seen.node, seen.pid)
    return process if process is not None and (process.alive or then) else None


def fetching(case: Case, seen: Seen) -> Fetching | None:
    """What the recording says of the fetch this process is in."""
    process = recorded(case, seen)
    return max(process.fetching, key=lambda one: one.now_since, default=None) if process else None


def standing(case: Case, seen: Seen, stack: Stack) -> float:
    """Seconds for which this process has certainly not got on.

    The watcher's clock knows best, then the recording. Without them: for as long as the thread has not run at all; or
    for as long as it was looked at, if it was in one and the same sample, or asking for one and the same lock, all the
    time. A thread that sleeps at the same line at two looks may have come round in between. Neither counts beyond the
    moment at which it last passed on a batch or an index. Who waits to meet the other ranks asks for them, too. Who
    waits for a GPU spins: that it never left the line only shows if it was watched. A recording that never shows
    progress, as of a loop without DataLoader and optimizer, is no clock: a thread that sleeps now and then may train.
    """
    process, stall = recorded(case, seen), case.stall
    if process is not None and not _only_the_kernel_knows(process, seen, stack):
        if stall is not None:
            return stall.seconds
        if case.looked_at is not None:
            return max(case.looked_at - process.last_sign, 0.0)
    known = [seen.main_task.still or 0.0]
    if doing(stack) == GPU and seen.rounds is not None and stays(seen.rounds):
        known.append(seen.rounds.seconds)
    if same_sample(stack) or asks(stack):
        known.append(seen.looked)
    handed = last_handed(case, seen)
    return max(known) if handed is None else min(max(known), handed)


def asks(stack: Stack) -> bool:
    """Both looks found it asking for the same lock, or for the other ranks: no step of a training does."""
    return (doing(stack) in ASKING or meets(stack)) and same_place(stack)


def _only_the_kernel_knows(process: Process, seen: Seen, stack: Stack) -> bool:
    task = seen.main_task
    idle = task.still is not None and not computes(task, seen.looked)
    return idle and not tells_progress(process) and not asks(stack)


def tells_progress(process: Process) -> bool:
    """Its recording has something that changes with progress: a loader, steps, data that is read, the user's words."""
    data = process.loaders or process.fetching or process.sources or process.progress
    return bool(data or process.optimizer_steps or process.phases or process.stages or process.spans or process.group)


def stays(rounds: Rounds) -> bool:
    """Every sample of it met the same line of the user's."""
    return len({place(user_frame(one.stack.calls)) for one in rounds.samples}) == 1


def last_handed(case: Case, seen: Seen) -> float | None:
    """Seconds since it last passed on an index or a batch. None: it never did, or the kernel does not tell."""
    return min((task.still for task in _feeders(case, seen) if task.still is not None), default=None)


def same_sample(stack: Stack) -> bool:
    """Both looks found it fetching the same sample."""
    now, then = fetch_of(stack), fetch_of(earlier(stack))
    return now is not None and then is not None and now[0] is not None and now[0] == then[0]


def earlier(stack: Stack) -> Stack:
    return Stack(pid=stack.pid, tid=stack.tid, frames=stack.before)


def same_place(stack: Stack) -> bool:
    """Both looks found it on the same line of the user's, in the same calls from there on outwards."""
    now, then = (_from_users(one) for one in (stack.calls, own_calls(stack.before)))
    return bool(now) and now == then


def _from_users(calls: list[Frame]) -> list[tuple[str, int, str]]:
    for number, frame in enumerate(calls):
        if user_frame([frame]) is not None:
            return [(one.file, one.line, one.name) for one in calls[number:]]
    return [(one.file, one.line, one.name) for one in calls]


def nobody_else(case: Case, seen: Seen) -> bool:
    """No other thread of this process could let go of what its main thread waits for."""
    return all(is_machinery(one) for one in other_stacks(case, seen.pid))


def is_machinery(stack: Stack) -> bool:
    return any(one.name in MACHINERY for one in stack.calls)


def _feeders(case: Case, seen: Seen) -> list[Task]:
    """Threads that pass on indices (in a main process) or batches (in a worker): they run whenever one is passed on."""
    stacks = [one for one in other_stacks(case, seen.pid) if any(call.name == "_feed" for call in one.calls)]
    return [task for one in stacks if (task := seen.task(one.tid)) is not None]


@once
def suspects(case: Case) -> list[tuple[Seen, Seen, Stack]]:
    """Main processes that wait for a batch, each with a worker of theirs that is not idle.

    A worker that waits for its next index is innocent; so is the main process.
    """
    found = []
    for main, stack in mains(case):
        if doing(stack) != WAITING:
            continue
        for worker in workers(case, main):
            own = main_stack(case, worker.pid)
            if own is not None and not is_idle_worker(own.calls):
                found.append((main, worker, own))
    return found


@once
def fetchers(case: Case) -> list[tuple[Seen, Seen, Stack]]:
    """The same, and main processes that fetch themselves."""
    alone = [(main, main, stack) for main, stack in mains(case) if fetch_of(stack) is not None]
    return suspects(case) + alone


def in_futex(task: Task) -> bool:
    return task.syscall == "futex" or "futex" in task.wait_channel


def asleep(task: Task) -> bool:
    """In a sleep of its own choosing."""
    return "nanosleep" in task.syscall or "nanosleep" in task.wait_channel


def waits_in(task: Task) -> str:
    """`blocked in recvfrom (tcp …)`; `sleeping`; `waiting for a lock, an event or a queue`."""
    if asleep(task):
        return "sleeping"
    if in_futex(task):
        return "waiting for a lock, an event or a queue"
    about = f" ({task.awaits.name})" if task.awaits is not None else ""
    return f"blocked in {task.syscall or task.wait_channel or 'the kernel'}{about}"


def needs_patience(case: Case) -> float:
    """Seconds until it is sure that somebody stands who stands now. 0: nobody does, or it is sure already."""
    times = [standing(case, seen, stack) for main, own in mains(case) for seen, stack in _in_question(case, main, own)]
    return max([0.0, *(LONG - one + 0.5 for one in times if 0 < one < LONG)])


def _in_question(case: Case, main: Seen, stack: Stack) -> list[tuple[Seen, Stack]]:
    """Who holds this main process up: workers that are not idle if it waits for them, else itself if it rests."""
    if doing(stack) == TRAINING or (not idles(main.main_task, main.looked) and fetch_of(stack) is None):
        return []
    busy = [(worker, own) for owner, worker, own in suspects(case) if owner.pid == main.pid]
    return busy or [(main, stack)]


# What kind of lock a thread waits for, and who could have held it at a fork.
# Functions of the interpreter that wait for a lock, in one version or another.
ACQUIRING = ("PyThread_acquire_lock", "lock_PyThread_acquire", "rlock_acquire", "PyMutex_Lock", "acquire_timed")
POOLS = ("libgomp", "libiomp", "libomp", "libmkl")
PLAIN = ("libc.", "libc-", "libpthread", "libpython", "python", "ld-linux", "ld-musl")


@once
def forked_into_a_wait(case: Case) -> list[tuple[Seen, Stack]]:
    """Forked processes whose main thread waits for a lock without limit, while no other thread of theirs could help."""
    found = []
    for seen in case.processes or ():
        stack = main_stack(case, seen.pid)
        if stack is None or not seen.forked or seen.ended:
            continue
        task = seen.main_task
        waits = in_futex(task) and not task.limited and idles(task, seen.looked)
        if waits and nobody_else(case, seen) and standing(case, seen, stack) >= LONG:
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


def other_threads(case: Case, seen: Seen) -> list[str]:
    """Threads of its parent that could have held a lock at the fork: those there now, else those there at the time."""
    now = {one.name: _name(one) for one in other_stacks(case, seen.parent) if not is_machinery(one)}
    process = recorded(case, seen)
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
