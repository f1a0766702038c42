"""Whether a training makes progress, and whether anything of a training was seen at all."""

from __future__ import annotations

from typing import NamedTuple

from ..evidence.basics import Place
from ..evidence.live import Awaited, Seen, Stack, Task
from ..evidence.process import Process
from ..report import NOTHING
from .case import Case, once
from .endless_loops import goes_round, keeps_nothing
from .first_batch import gave_batches
from .stacks import (
    COLLECTIVE,
    GPU,
    LOGGERS,
    LOGGING,
    OWN,
    WAITING,
    doing,
    is_idle_worker,
    meets,
    place,
    user_frame,
    waits_for_user,
)
from .standstill import (
    LONG,
    POLLING,
    TICK,
    asleep,
    computes,
    descendants,
    earlier,
    idles,
    in_futex,
    is_machinery,
    main_stack,
    mains,
    moves,
    other_stacks,
    recorded,
    same_place,
    standing,
    stays,
    workers,
)

# Whether a training makes progress: the thread that has to, or one that it waits for.
#
# Every training has threads and processes that live on while it hangs: wandb's service, a TensorBoard writer, metrics
# and heartbeats, a pin-memory thread that polls, a launcher. Their bytes, switches and CPU time are not its progress.
# What counts are the threads, children and descriptors that the blocked thread itself needs. Libraries whose threads
# report on a training and never do its work.
REPORTERS = (
    *LOGGERS, "/opentelemetry/", "/sentry_sdk/", "/prometheus_client/", "/tqdm/_monitor.py", "/codecarbon/",
    "/rich/live.py", "/rich/progress.py",
)  # fmt: skip
DIRECT = (
    "read",
    "pread64",
    "readv",
    "recvfrom",
    "recvmsg",
    "write",
    "pwrite64",
    "writev",
    "sendto",
    "sendmsg",
    "connect",
    "accept",
    "accept4",
    "open",
    "openat",
    "newfstatat",
    "fsync",
    "fdatasync",
    "getdents64",
)  # fmt: skip  (calls that wait for one thing alone, and no thread of the process can end them)
# What may still come.
SERVER, STORAGE, PERSON, DEVICE = "a server's answer", "storage", "its user", "its GPU"
OF_THE_RUN = ("main", "worker", "child")
A_MINUTE = 60.0  # seconds of CPU time without anything to show for it before it is called no progress


class Standstill(NamedTuple):
    """A main process whose training thread makes no progress, and nobody it waits for does."""

    seen: Seen
    where: Place | None
    seconds: float
    doing: str
    awaits: str  # what may still come; "": nothing that is known


@once
def standstills(case: Case) -> list[Standstill]:
    """Who makes no progress for long. None while any rank does that the others may wait for, nor once it has ended."""
    if case.run.status is not None:
        return []
    still = [
        _standstill(case, seen, stack)
        for seen, stack in mains(case)
        if _stands(case, seen, stack) or _spins_unrecorded(case, seen, stack)
    ]
    if any(progresses(case, seen, stack) for seen, stack in mains(case)):
        still = [one for one in still if one.doing not in (COLLECTIVE, GPU)]
    return still


def progresses(case: Case, seen: Seen, stack: Stack) -> bool:
    """By its recording; where that has nothing new, or there is none, by the threads that have to move."""
    process = recorded(case, seen)
    if process is not None and standing(case, seen, stack) < _enough(case):
        return True
    if comes_round(seen, stack):
        return True
    what = doing(stack)
    if what == COLLECTIVE or waits_for_user(seen, stack):
        return False
    if what == GPU:  # mostly it spins there, whether its own kernels run or the other ranks never come
        return process is None and not (seen.rounds is not None and stays(seen.rounds))
    if moves_itself(seen, stack):
        return not (process is not None and what == OWN and _only_spins(case, seen, stack))
    return helped(case, seen, stack) or _gpu_works(case, seen, stack)


def _enough(case: Case) -> float:
    """Seconds without progress that matter: those that the user gave, if they are fewer."""
    return LONG if case.stall is None else min(LONG, case.stall.patience)


def stood(case: Case, seen: Seen, stack: Stack) -> float:
    """Seconds without progress, at least. A thread that polls runs now and then, and is at one line at every look."""
    known = standing(case, seen, stack)
    if recorded(case, seen) is not None or not same_place(stack) or not idles(seen.main_task, seen.looked):
        return known
    if comes_round(seen, stack):
        return known
    return max(known, seen.looked)


def comes_round(seen: Seen, stack: Stack) -> bool:
    """Between the looks it was met at another part of a training: a loop that sleeps now and then, and goes on."""
    others = {doing(one.stack) for one in seen.met} - {OWN, doing(stack)}
    return bool(others)


def _stands(case: Case, seen: Seen, stack: Stack) -> bool:
    process = case.process(seen.node, seen.pid)
    if process is not None and not process.alive:  # that was before its end
        return False
    long = stood(case, seen, stack) >= _enough(case)
    return long and not progresses(case, seen, stack) and not wraps(case, seen)


def wraps(case: Case, seen: Seen) -> bool:
    """It waits for a training that it has started, which is looked at itself."""
    return any(one.role == "main" and not one.ended for one in descendants(case, seen.pid))


def _only_spins(case: Case, seen: Seen, stack: Stack) -> bool:
    """It has used CPU time alone for a minute: it read, wrote and kept nothing, and recorded no progress."""
    grown = seen.anonymous_grown > 0 or seen.files_grown > 0 or seen.shared_grown > 0
    return standing(case, seen, stack) >= A_MINUTE and not grown and not seen.main_task.read


def spins(seen: Seen, stack: Stack) -> bool:
    """It was watched for longer: the same few lines of its own and nothing kept, or the same files again and again.

    Who waits for a GPU and comes round has the work done there.
    """
    rounds = seen.rounds
    if rounds is None or doing(stack) == GPU:
        return False
    return keeps_nothing(rounds) and (not rounds.read or goes_round(rounds))


def _spins_unrecorded(case: Case, seen: Seen, stack: Stack) -> bool:
    """Nothing but the look tells of its progress, and that showed none."""
    return recorded(case, seen) is None and spins(seen, stack) and not wraps(case, seen)


def _gpu_works(case: Case, seen: Seen, stack: Stack) -> bool:
    """Nothing is recorded of it, and a GPU whose memory it holds is busy: it waits for its own kernels.

    In a container NVML lists no process at all: then any GPU there may be its own. A collective that never ends keeps a
    GPU busy, too, and no kernel of a training takes a minute.
    """
    busy = any(one.busy for one in case.gpus or () if seen.pid in one.processes or not one.processes)
    return busy and recorded(case, seen) is None and stood(case, seen, stack) < A_MINUTE


def moves_itself(seen: Seen, stack: Stack) -> bool:
    """This thread computed, read, wrote, went on to another line, or got pages of a mapped file."""
    task = seen.task(stack.tid) or seen.main_task
    return not idles(task, seen.looked) or pages_in(seen, task) or not same_place(stack)


def pages_in(seen: Seen, task: Task) -> bool:
    """It waits in a page fault, which no system call shows, and pages of the file do come."""
    if task.syscall:
        return False
    return task.page_ins > 0 or task.fetched > 0 or seen.files_grown > 0


def helped(case: Case, seen: Seen, stack: Stack) -> bool:
    """Somebody whom this thread waits for does something: another thread, a child, the other end of a pipe."""
    task = seen.task(stack.tid) or seen.main_task
    if doing(stack) == LOGGING:
        return moves(seen) or any(moves(one) for one in descendants(case, seen.pid))
    if doing(stack) == WAITING and any(_worker_moves(case, one) for one in workers(case, seen)):
        return True
    if task.awaits is not None and task.awaits.holders and task.syscall not in ("poll", "ppoll", "select", "pselect6"):
        return _other_end_moves(case, seen, task.awaits)
    if task.syscall in DIRECT:
        return False
    return _threads_help(case, seen, stack) or any(
        _child_helps(case, one, asleep(task)) for one in descendants(case, seen.pid)
    )


def _worker_moves(case: Case, worker: Seen) -> bool:
    """In a sample, and getting on with it, or from one sample to the next."""
    stack = main_stack(case, worker.pid)
    if stack is None or worker.ended or is_idle_worker(stack.calls):
        return False
    return moves_itself(worker, stack) or helped(case, worker, stack)


def _other_end_moves(case: Case, seen: Seen, awaits: Awaited) -> bool:
    pids = {one.pid for one in awaits.holders}
    below = [one for pid in pids for one in descendants(case, pid)]
    return any(one.moving for one in awaits.holders if one.pid != seen.pid) or any(moves(one) for one in below)


def _threads_help(case: Case, seen: Seen, stack: Stack) -> bool:
    """Threads of Python that are no reporters, and native ones that compute."""
    known = {one.tid: one for one in other_stacks(case, seen.pid)}
    for task in seen.tasks:
        if task.tid == stack.tid:
            continue
        own = known.get(task.tid)
        if own is None:
            if _computes(task, seen.looked):
                return True
        elif not is_beside(own) and (_works(task, seen.looked) or _its_end_moves(case, seen, task)):
            return True
    return False


def _its_end_moves(case: Case, seen: Seen, task: Task) -> bool:
    return task.awaits is not None and bool(task.awaits.holders) and _other_end_moves(case, seen, task.awaits)


def _child_helps(case: Case, child: Seen, polled: bool) -> bool:
    """A process of the run's own that works; a command only if it computes, or if it may be what is polled for."""
    if child.ended or child.role == "watcher" or is_reporter(child):
        return False
    if child.role in OF_THE_RUN:
        stack = main_stack(case, child.pid)
        return any(_works(task, child.looked) for task in child.tasks) and not (
            stack is not None and is_idle_worker(stack.calls)
        )
    return _computes(child, child.looked) or (polled and any(_works(task, child.looked) for task in child.tasks))


def is_reporter(child: Seen) -> bool:
    return any(part in word for word in child.command[:2] for part in REPORTERS)


def is_beside(stack: Stack) -> bool:
    """Its work is about the training, not for it."""
    return is_machinery(stack) or any(part in one.file for one in stack.calls for part in REPORTERS)


def _computes(one: Seen | Task, looked: float) -> bool:
    return one.cpu > max(TICK, POLLING * looked)


def _works(task: Task, looked: float) -> bool:
    """It computes or moves bytes. A heartbeat, a metrics thread and a spinner do a little of both at every tick."""
    if _ticks(task):
        return computes(task, looked)
    return _computes(task, looked) or bool(task.read or task.written)


def _ticks(task: Task) -> bool:
    return task.ticked or asleep(task) or (in_futex(task) and task.limited)


def _standstill(case: Case, seen: Seen, stack: Stack) -> Standstill:
    return Standstill(
        seen=seen,
        where=place(user_frame(stack.calls)),
        seconds=max(stood(case, seen, stack), seen.rounds.seconds if seen.rounds is not None else 0.0),
        doing=doing(stack),
        awaits=may_come(seen, stack),
    )


def waits_for_answer(seen: Seen) -> bool:
    """Of a server or of storage: it may be slow, and nothing here tells slow from dead."""
    return _on_socket(seen.main_task) or _on_storage(seen.main_task)


def _on_socket(task: Task) -> bool:
    polls = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait")
    return task.awaits is not None and task.awaits.kind == "socket" and task.syscall in (*DIRECT, *polls)


def _on_storage(task: Task) -> bool:
    """Asleep in the kernel where no signal wakes it, or in a call on a file."""
    on_file = task.awaits is not None and task.awaits.kind == "file" and task.syscall in DIRECT
    return task.state == "D" or on_file


def may_come(seen: Seen, stack: Stack) -> str:
    """What it waits for that lies outside of the run and may still come. Empty: nothing of that kind is known."""
    task = seen.main_task
    known = (
        (waits_for_user(seen, stack), PERSON),
        (meets(stack), "the other ranks to start"),
        (_on_socket(task), SERVER),
        (_on_storage(task), STORAGE),
        (doing(stack) == GPU, DEVICE),
        (asleep(task), "a sleep of its own to end"),
    )
    return next((what for is_it, what in known if is_it), "")


# Whether anything of a training was seen: batches, steps, data on its way. Without that no run is called healthy.
HIDDEN = " (python -I and an emptied environment hide it)"
UNKNOWN_LOOP = (
    "It may be none, or a loop without DataLoader and torch's optimizers: unstuck.progress(…) makes that visible."
)


@once
def trained(case: Case) -> bool:
    """By what is recorded. Of a run that goes on, something on its way to the first batch will do."""
    if any(_shows_progress(one) for one in case.recording or ()):
        return True
    return case.run.status is None and _moves(case)


def nothing_of_it(case: Case) -> str:
    """What is told of a run that was looked at, and in which nothing of a training was seen. Else nothing."""
    if case.run.status not in (0, None) or trained(case) or not _looked(case):
        return ""
    if case.recording is None and not case.processes:
        return f"{NOTHING}: nothing was recorded, because no process imported torch where unstuck could see it{HIDDEN}."
    far = "" if case.run.status is None else " until the command ended"
    seen = f"no batch, no optimizer step{far}" if case.recording else "no thread was met in a training"
    return f"{NOTHING}: {seen}. {UNKNOWN_LOOP}"


def _looked(case: Case) -> bool:
    """Nothing was kept from sight: what could not be read, or looked into, may hold all of it."""
    refused = any(one.role == "main" and one.refused for one in case.processes or ())
    return not case.unreadable and not refused


def _shows_progress(process: Process) -> bool:
    """Batches, steps, checkpoints, documents read, what the user tells, or ranks that have met."""
    met = process.group is not None and process.group.ended is not None and not process.group.failed
    told = bool(process.progress or process.metrics) or any(one.told for one in process.phases)
    fed = gave_batches(process) or any(one.items for one in process.sources)
    return bool(process.optimizer_steps or process.saved) or fed or told or met


def _moves(case: Case) -> bool:
    """A main process is at something that is known, or reads, writes or takes memory. Computing alone shows nothing."""
    live = [(seen, stack) for seen, stack in mains(case) if not wraps(case, seen)]
    return any(_at_work(case, seen, stack) for seen, stack in live)


def _at_work(case: Case, seen: Seen, stack: Stack) -> bool:
    if spins(seen, stack):
        return False
    what = {doing(stack), doing(earlier(stack))} if stack.before else {doing(stack)}
    if what - {OWN, COLLECTIVE} or (COLLECTIVE in what and not same_place(stack)):
        return True
    task = seen.main_task
    took = seen.anonymous_grown > 0 or seen.files_grown > 0 or task.page_ins > 0 or task.fetched > 0
    watched = seen.rounds is not None and bool(seen.rounds.samples)  # and it did not only spin
    return watched or took or bool(task.read or task.written) or helped(case, seen, stack)
