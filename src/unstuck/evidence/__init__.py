"""Evidence: everything the probes saw of a run, as plain data that rules judge and reports carry along.

A section that is None was not looked at. Times are seconds since the run began; sizes are bytes.
"""

from __future__ import annotations

import msgspec

from .data import Data
from .distributed import Attempt
from .live import Frame, Gpu, Sampled, Seen, Stack, Stall, called_anonymous
from .process import Process
from .trial import Trial


class Exit(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a process ended, and who saw it."""

    pid: int
    status: int  # an exit code, or a signal as a negative number
    at: float
    how: str  # waited (by the watcher), reaped (by its parent), peeked (by its parent, while an exception was leaving)
    by: int = 0
    node: str = ""  # "": evidence that is older does not say


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Resident memory of one process, by kind: anonymous (the kernel's RssAnon), of mapped files, shared.

    A forked process has all anonymous memory of its parent from the beginning, shared until one of them writes: only
    `own` is private to it.
    """

    pid: int
    anonymous: int = 0
    files: int = 0
    shared: int = 0
    descriptors: int | None = None
    # Only in every fourth sample, later in every sixteenth: each costs a file to read. Counted since the process began.
    threads: int | None = None
    cpu: float | None = None  # seconds, of all threads
    own: int | None = None  # bytes that no other process shares; more seldom still, and only of the first few processes
    main_cpu: float | None = None  # seconds, of its main thread alone
    queued: float | None = None  # seconds its main thread was ready to run and had no processor
    preempted: int | None = None  # times its main thread had to leave its processor to somebody else
    read: int | None = None  # bytes it asked for, from files and pipes
    from_disk: int | None = None  # bytes that had to be fetched from a disk for it
    pinned: str = ""  # processors it may run on, as `0-3,8`; empty: all that it could be given
    waits: str = ""  # what its main thread is blocked at: "write terminal", "recvfrom socket"; of main processes only
    private: int = 0  # how `anonymous` was called in evidence that is older

    def __post_init__(self) -> None:
        called_anonymous(self, "private", "anonymous")


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """The machine as the training saw it at one moment."""

    at: float
    available: int = 0
    total: int = 0
    limit: int | None = None  # of the smallest memory cgroup above the training
    used: int | None = None
    peak: int | None = None
    oom_kills: dict[str, int] = {}  # by cgroup, and "machine"
    shm_size: int | None = None
    shm_free: int | None = None
    disk_free: int | None = None
    cached: int | None = None  # the page cache of the smallest memory cgroup, or of the machine
    pressure: float | None = None  # share of the last ten seconds in which somebody waited for a disk
    idle: float | None = None  # seconds for which processors that it could use had nothing to do, all together
    processes: list[Memory] = []
    gpus: list[Gpu] = []


class Glance(msgspec.Struct, frozen=True, omit_defaults=True):
    """The main thread of a rank, looked at because something took long: where it was."""

    at: float
    pid: int
    doing: str  # what the recording says: in the loop's body, between passes, waiting for a batch …
    since: float  # when that began
    waits: str = ""  # what it was blocked at, as Memory.waits
    frames: list[Frame] = []  # innermost first


class Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """A signal that `unstuck run` received for its command, and passed on."""

    signal: int
    at: float
    pid: int = 0  # of the sender; 0: the kernel, or a process of another container
    by: str = ""  # its name, where it was still there
    terminal: bool = False  # a key at the terminal, or a timer: sent by the kernel
    ignored: bool = False  # the command ignored it at that moment
    handled: bool = False  # the command had a handler for it


class Host(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node of the run, over time."""

    node: str
    cpus: int = 0
    granted: str = ""  # processors that cpusets leave the training, as `0-3,8`; its affinity may be less
    quota: float | None = None  # processors that cgroups let it use at a time
    descriptor_limit: int | None = None
    cgroup: str | None = None
    samples: list[Sample] = []
    watcher_ended: bool = False
    processes_alive: bool = False
    unrecorded: list[str] = []
    glances: list[Glance] = []
    signals: list[Told] = []
    broke_off: bool = False  # its watcher was killed; looked for on that node itself


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was run."""

    id: str
    folder: str = ""
    command: list[str] = []
    started: float = 0.0  # seconds since the epoch
    host: str = ""
    cwd: str = ""
    status: int | None = None  # of the command itself, as `Exit.status`
    pid: int | None = None
    scheduler: str = ""  # Slurm, Kubernetes, or unknown
    time_limit: float | None = None  # when the scheduler ends the job, in seconds since the epoch


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """All sections: plain data that is saved, sent, judged again. What takes more than one record, `Case` answers."""

    run: Run
    recording: list[Process] | None = None  # of the newest attempt
    attempts: list[Attempt] = []  # earlier ones
    exits: list[Exit] | None = None
    host: list[Host] | None = None
    processes: list[Seen] | None = None
    stacks: list[Stack] | None = None
    samples: list[Sampled] | None = None
    gpus: list[Gpu] | None = None
    stall: Stall | None = None
    trial: Trial | None = None  # what was made to happen on purpose, by the doctor, the tuner or the budget
    data: Data | None = None  # data files that were read, by `check` or because a run had trouble with them
    looked_at: float | None = None  # when the processes were, as seconds since the run began
    unreadable: list[str] = []
