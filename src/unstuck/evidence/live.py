"""What a look at live processes shows: who is there, what each thread does, what it waits for, what moved meanwhile.

Everything is seen from outside, twice, a moment apart. Sizes are bytes, times are seconds.
"""

from __future__ import annotations

import msgspec

FROZEN = ("freezer", "refrigerator")  # parts of the names of what a frozen process waits in
FORKED = ("multiprocessing/process.py", "multiprocess/process.py")  # the second is the copy that datasets.map uses


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call on a stack. `locals` holds what torch and a few known libraries keep there, and a rank of the user's."""

    file: str
    line: int = 0
    function: str = ""
    native: bool = False
    locals: dict[str, str] = {}
    # What the loops go over that stand in the endless loop around this line, where none of them is being gone through:
    # by name, with what it is if that is empty ("[]"), else "".
    loops: dict[str, str] = {}
    # Of the user's own, by its source: the function is a generator; the line is inside a `while`.
    yields: bool = False
    repeats: bool = False

    @property
    def name(self) -> str:
        """The function without its class: Python 3.10 knows no more."""
        return self.function.rpartition(".")[2]


class Holder(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process at the other end of a pipe or a socket, or one that holds a lock."""

    pid: int
    command: str = ""
    state: str = ""
    wait_channel: str = ""
    moving: bool = False  # it computed, read or wrote between the two looks


class Awaited(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a blocked thread, or a thread that polls, waits for."""

    kind: str  # file, fifo, pipe, socket, terminal, lock file, child, other
    name: str
    descriptor: int | None = None
    holders: list[Holder] = []
    age: float | None = None  # of a lock file
    # Of a lock file: why its holder may be one that was not seen; "": all processes of this machine were looked at.
    unseen: str = ""
    soft: bool = False  # it is held as long as it exists: the kernel knows of no holder


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thread, as the kernel sees it."""

    tid: int
    name: str = ""
    state: str = ""  # R running, S asleep, D asleep in the kernel, T stopped, t traced, Z ended but not reaped
    wait_channel: str = ""
    syscall: str = ""
    awaits: Awaited | None = None
    futex: int = 0  # address of the lock it waits for
    limited: bool = False  # the wait has a time limit
    ticked: bool = False  # at the first look it slept by its own clock
    cpu: float = 0.0  # used between the looks
    cpu_total: float = 0.0
    queued: float = 0.0  # for which it could have run, but others had the processor
    switches: int = 0  # how often it went to sleep or was put aside between the looks
    preempted: int = 0  # of these, how often it was put aside
    read: int = 0  # by this thread, between the looks
    written: int = 0
    page_ins: int = 0  # pages of mapped files that it had to wait for
    fetched: int = 0  # bytes that came from storage for it, by whatever way
    still: float | None = None  # for how long it has not run at all; None where the kernel does not tell


class Sampled(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stack that a sampler met so many times in one thread."""

    pid: int
    tid: int
    count: int
    seconds: float = 0.0  # that it stands for
    parent: int = 0  # the process that started this one, where both were sampled
    thread: str = ""
    frames: list[Frame] = []  # innermost first

    @property
    def stack(self) -> Stack:
        return Stack(pid=self.pid, tid=self.tid, name=self.thread, frames=self.frames)


class Rounds(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a main thread that computes without progress went through while it was watched for longer."""

    seconds: float
    cpu: float = 0.0  # of the main thread, as are the next three
    queued: float = 0.0
    read: int = 0
    written: int = 0
    grown: int = 0  # anonymous memory: its peak in the second half over its peak in the first
    samples: list[Sampled] = []  # of its main thread; empty: the sampler could not look
    files: dict[str, int] = {}  # files and folders that it had open, with how often each was begun again
    size: int = 0  # of these files together, in bytes
    fresh: list[str] = []  # those it opened for the first time, or read further than before, in the second half


def called_anonymous(struct: msgspec.Struct, old: str, new: str) -> None:
    """A number that was saved under its old name gets its new one."""
    if getattr(struct, old):
        msgspec.structs.force_setattr(struct, new, getattr(struct, old))
        msgspec.structs.force_setattr(struct, old, 0)


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process of the run."""

    node: str
    pid: int
    parent: int
    role: str  # launcher, main, worker (of a DataLoader), child (of multiprocessing), helper, watcher
    name: str = ""
    command: list[str] = []
    rank: int | None = None
    local_rank: int | None = None
    world: int | None = None
    worker: int | None = None
    forked: bool = False  # runs its parent's program without having started it anew
    age: float = 0.0
    state: str = ""
    wait_channel: str = ""
    ended: bool = False  # while it was looked at
    tasks: list[Task] = []
    looked: float = 0.0  # between the two looks
    cpu: float = 0.0
    read: int = 0  # between the looks, from files, pipes and the page cache
    written: int = 0
    faults: int = 0
    anonymous: int = 0  # with what it still shares with the process that forked it
    files: int = 0
    shared: int = 0
    anonymous_grown: int = 0
    files_grown: int = 0
    shared_grown: int = 0
    descriptors: int | None = None
    descriptor_limit: int | None = None
    traced_by: int = 0
    lock: Awaited | None = None  # a lock file that its main thread polls for
    refused: str = ""  # why its stacks could not be had
    rounds: Rounds | None = None  # only of one whose main thread computes and gets nowhere
    met: list[Sampled] = []  # stacks of its main thread between the looks, if it slept and woke up often in that time
    private: int = 0  # how `anonymous` was called in evidence that is older, and the next one alike
    private_grown: int = 0

    def __post_init__(self) -> None:
        called_anonymous(self, "private", "anonymous")
        called_anonymous(self, "private_grown", "anonymous_grown")

    @property
    def halted(self) -> bool:
        """Stopped by a signal, held by a debugger, or frozen with its cgroup: it waits for nothing."""
        return self.state in ("T", "t") or any(part in self.wait_channel for part in FROZEN)

    @property
    def main_task(self) -> Task:
        return next((one for one in self.tasks if one.tid == self.pid), Task(tid=self.pid, state=self.state))

    def task(self, tid: int) -> Task | None:
        return next((one for one in self.tasks if one.tid == tid), None)


class Stack(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thread's calls, innermost first, at the second look; `before` at the first."""

    pid: int
    tid: int  # 0: not known, as of other threads than the main one before Python 3.11, read without a pause
    name: str = ""
    ident: int = 0  # Python's own number of the thread
    frames: list[Frame] = []
    before: list[Frame] = []
    holds_gil: bool = False
    held_gil: bool = False  # at the first look

    @property
    def calls(self) -> list[Frame]:
        """Python's own calls in this process. Below, a forked child has those that its parent was in at the fork."""
        return own_calls(self.frames)

    @property
    def is_main(self) -> bool:
        return self.tid == self.pid

    @property
    def unchanged(self) -> bool:
        """Both looks found it on the same line of every call."""
        return [(one.file, one.line, one.name) for one in self.calls] == [
            (one.file, one.line, one.name) for one in own_calls(self.before)
        ]


def own_calls(frames: list[Frame]) -> list[Frame]:
    """Up to where a forked child's own begin."""
    found = []
    for frame in frames:
        if frame.name == "_bootstrap" and frame.file.endswith(FORKED):
            break
        if not frame.native:
            found.append(frame)
    return found


class Gpu(msgspec.Struct, frozen=True, omit_defaults=True):
    """One GPU: how busy it was in its last sampling period, and whose memory it holds."""

    number: int
    busy: float | None = None  # share of the time in which anything ran on it
    used: int = 0
    total: int = 0
    processes: dict[int, int] = {}  # pid and bytes


class Stall(msgspec.Struct, frozen=True, omit_defaults=True):
    """No rank has got on: since when, and what it did when it last did."""

    rank: int | None
    pid: int
    since: float  # seconds since the run began
    seconds: float
    doing: str = ""
    usual: float | None = None  # the longest it normally takes (p99); None: it was never done before
    patience: float = 60.0  # after which a stall is told without a cause
    blind: bool = False  # its recording has nothing that would change with progress
