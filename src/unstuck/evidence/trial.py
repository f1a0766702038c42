"""What was tried on purpose with somebody's loader, in what surroundings, and what it measured. Seconds and bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from .basics import Place
from .finding import Finding
from .loader import Loader
from .process import Failure

# What a loader is tried in: limits of the machine, processors, variables, versions. Sizes are bytes.


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """As a process started now, by this user, with this interpreter, would find them. None: it could not be read."""

    python: str = ""  # the interpreter's path
    python_version: str = ""
    kernel: str = ""
    machine: str = ""  # x86_64, aarch64
    container: str = ""  # docker, podman, kubernetes, lxc, singularity, or just container; "": none that shows
    shm_size: int | None = None
    shm_free: int | None = None
    shm_kind: str = ""  # file system of /dev/shm; "": it is no mount of its own
    folder: str = ""  # the working folder
    folder_kind: str = ""  # its file system: ext4, nfs4, overlay, fuse.sshfs …
    folder_free: int | None = None
    descriptors: int | None = None  # that a process may have open; None: as many as it likes
    descriptors_most: int | None = None  # to which it may raise that itself
    memory: int | None = None  # of the machine
    memory_available: int | None = None
    memory_limit: int | None = None  # of the smallest cgroup above; None: there is none
    memory_used: int | None = None  # of that cgroup, without page cache
    processors: int | None = None  # of the machine
    processors_allowed: int | None = None  # to this process, by its affinity
    processors_granted: int | None = None  # by cpusets of cgroups, whatever the affinity
    processors_quota: float | None = None  # by the cgroups' quota; None: there is none
    start_method: str = ""  # of multiprocessing, by default
    sharing_strategy: str = ""  # of torch.multiprocessing, by default
    max_map_count: int | None = None
    variables: dict[str, str] = {}  # that are set, of those that data loading is often told with
    versions: dict[str, str] = {}  # of libraries installed for that interpreter, by name
    unreadable: list[str] = []  # what could not be asked, and why


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """One true sentence about a variable, or about a version that is known to be bad."""

    about: str  # the variable or the library, with its value or version
    text: str
    source: str = ""  # the public thread that tells it: pytorch/pytorch#101188


# Throughput of a loader, as it was measured with given settings.


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """One setting (or one differential variant) and what it came to."""

    name: str  # as it is, cached, no collate, plain reading; or the setting in words
    workers: int = 0
    prefetch: int | None = None
    persistent: bool = False
    pin: bool = False
    in_order: bool = True
    context: str = ""  # fork, spawn, forkserver; "": the default
    batches: int = 0  # that were timed, those of the warm-up left out
    samples: int = 0
    seconds: float = 0.0
    rate: float = 0.0  # samples a second
    noise: float = 0.0  # relative: a repetition differs by so much
    bytes_rate: float | None = None  # bytes a second, where bytes were counted
    start: float = 0.0  # seconds until the first batch was there
    longest: float = 0.0  # the longest wait for a batch
    starved: float | None = None  # share of the loop spent waiting, with a training step of the given length between
    memory: int = 0  # most that all its processes took together
    shm: int = 0
    failed: str = ""  # why there is no figure
    took: float = 0.0  # seconds of the measurement itself
    step: float | None = None  # seconds that each batch was kept for, as a training would
    processors: float = 0.0  # that computed, of its processes together, on average
    scatter: float = 0.0  # of the waits: their standard deviation, in means
    read: int = 0  # bytes that came from a disk while it was timed
    times: int = 1  # that it was measured


class Search(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the settings were looked for."""

    settings: int = 0  # that were measured
    grid: int = 0  # that an exhaustive search would have measured
    seconds: float = 0.0
    noise: float = 0.0
    formula: int = 0  # workers that the usual rule of thumb gives
    step: float | None = None  # seconds of a training step that has to be fed
    stopped: str = ""  # why the search ended where it did
    memory: int = 0  # that may be used
    memory_of: str = ""
    formula_said: str = ""  # the rule of thumb with this machine's numbers
    processors: float = 0.0  # that may be used
    data: str = ""  # disk, page cache, disk first: where the samples came from
    needed: float | None = None  # samples a second that a training with that step takes
    step_of: str = ""  # where the step's length is from
    debug: str = ""  # code of a loader to debug with
    notes: list[str] = []  # what else was decided, and why


class Proposal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A setting that can be used, with its reason."""

    name: str  # careful, balanced, fast
    setting: Measured
    memory: int = 0  # that it needs in training, predicted
    why: str = ""
    code: str = ""  # to paste


# Memory that a loader needs, predicted before it runs. Bytes.
SAFE, TIGHT, IMPOSSIBLE = "safe", "tight", "impossible"


class Loaded(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sample (or batch, where the dataset gives whole ones), loaded in the process that looks at it."""

    index: int | str | None = None
    seconds: float = 0.0
    cpu: float = 0.0
    size: int = 0  # what its tensors, arrays and bytes show
    storage: int = 0  # the memory these are views of: what is handed over to another process
    peak: int = 0  # most memory while it was made, above what was there before
    tensors: int = 0
    shapes: str = ""  # float32[3, 224, 224]
    files: list[str] = []  # read while it was made
    shm: int = 0  # of the storage, what goes to another process through /dev/shm: tensors, in whole pages
    pickled: int = 0  # what goes there through a pipe: arrays, strings, numbers
    held: int = 0  # all memory that goes away with it


class Shuffle(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shuffle buffer in a stream, as it is when it is full. Every worker has one."""

    of: str = ""  # whose: webdataset's .shuffle()
    elements: int = 0
    element: int | None = None  # bytes of one, at that place of the pipeline; None: none has passed
    looked: int = 0  # elements that this was measured with
    copies: int = 1  # of the buffer that are there at once: 2 where it is shuffled into a copy
    source: int | None = None  # bytes of all there is to read: more cannot be held
    shape: str = ""


class Needs(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a loader's appetite. None: nobody has measured or said it."""

    samples: list[Loaded] = []
    batch: Loaded | None = None  # put together of `batch_of` samples
    batch_of: int = 1
    shares: bool = True  # it is put together in shared memory directly, as torch's own collate function does
    base: int | None = None  # of the main process with the loader made
    main: int = 0  # that it takes more when it loads
    worker: int | None = None  # private memory of a worker that has loaded a little
    copied: int = 0  # of it, what was copied because it wrote to what it was forked with
    objects: int | None = None  # Python objects of the dataset: copied in forked workers by reading
    arrays: int = 0  # blocks of the dataset: copied to workers that are spawned
    largest: str = ""  # attribute of the dataset with most of the objects
    shuffles: list[Shuffle] = []
    method: str = ""  # fork, spawn, forkserver
    grown: list[tuple[int, int]] = []  # after so many batches, the most that a busy worker had taken above that, with …
    grown_batch: int = 1  # … batches of so many samples …
    grown_buffers: list[int] = []  # … and so many elements in each of its shuffle buffers
    settles: int = 0  # batches after which it takes no more; 0: not known
    in_a_pass: int | None = None  # samples that all workers load in a pass; None: no end in sight
    lasting: bool = False  # workers go on with the next pass
    measured: bool = True  # else given as numbers


class Term(msgspec.Struct, frozen=True, omit_defaults=True):
    """One summand, for one rank."""

    name: str
    size: int
    how: str  # the multiplication in words: "8 workers × prefetch 2 × batch of 32 × 1.2 MiB"
    measured: bool = True  # else assumed, or given as a number
    shm: bool = False  # of it lies in /dev/shm


class Alternative(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another setting, and what it would come to."""

    setting: str  # to paste: num_workers=8, prefetch_factor=1
    node: int = 0
    grade: str = ""
    shm: int = 0
    shm_grade: str = ""


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sum, against what there is."""

    workers: int = 0
    batch: int = 1
    prefetch: int = 0
    ranks: int = 1  # on this node
    terms: list[Term] = []
    rank: int = 0  # bytes of one rank
    node: int = 0  # of all ranks on this node
    memory: int = 0  # that may be used: of the machine, the cgroup, or as asked
    memory_of: str = ""  # machine, cgroup, --memory
    grade: str = ""  # safe, tight, impossible
    shm: int = 0  # of all ranks on this node, in /dev/shm
    shm_size: int | None = None
    shm_grade: str = ""
    assumed: list[str] = []  # what was not measured, and what was taken instead
    shm_free: int | None = None  # that may be used of it
    shm_of: str = ""  # machine, --shm
    idle_prefetch: int | None = None  # prefetch_factor that was asked for and does nothing, since there is no worker
    formula: int = 0  # workers × prefetch × batch × sample, as it is often given: without all that comes beside it
    safer: list[Alternative] = []  # settings that would do, the least change first
    notes: list[str] = []  # what else the numbers say

    def largest(self) -> Term | None:
        return max(self.terms, key=lambda one: one.size, default=None)


# What a sample of a loader costs, and what remains where a part of its work is taken away. Seconds and bytes.
STORAGE, COMPUTING, HAND_OVER, WORKERS, WAITING, BALANCED = (
    "storage", "computing", "hand-over", "workers", "waiting", "balanced"
)  # fmt: skip
PROCESSOR = "processor"  # a look found it running, or ready to
READS = ("read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg", "page fault", "splice")
OPENS = ("openat", "open", "newfstatat", "statx", "getdents64", "lseek")
POLLS = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait")
ENOUGH = 8  # looks: fewer say nothing
MOST = 0.5  # of the waiting
MUCH = 64 << 10  # bytes a sample: what a reader that sleeps brings; a label file would not be waited for so
PACED = 0.04  # seconds a sample of such sleep
SLEEPS = ("clock_nanosleep", "nanosleep")


class Plain(msgspec.Struct, frozen=True, omit_defaults=True):
    """The same files, read by a program that does nothing else."""

    bytes: int = 0
    seconds: float = 0.0
    files: int = 0
    cold: bool = False  # it came from a disk, not from the page cache

    @property
    def rate(self) -> float | None:
        return self.bytes / self.seconds if self.bytes and self.seconds else None


class Differences(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of the loader without workers: all that a sample costs is then done by one thread."""

    seconds: float = 0.0  # a sample, collating included
    cpu: float = 0.0  # of which it computed; more, if in several threads
    asked: float = 0.0  # bytes a sample that were read, whoever had them
    fetched: float = 0.0  # of which from a disk
    blocked: float | None = None  # share of that in which it waited for something else than a processor
    system: float = 0.0  # share of its processor time in system calls
    waits: dict[str, float] = {}  # what looks at the thread found it at, in shares: "processor", "read pipe", …
    looks: int = 0
    function: str = ""  # the innermost that most of loading goes through
    share: float = 0.0  # of loading
    where: Place | None = None  # the user's line that leads there
    plain: Plain | None = None
    paths: list[str] = []  # some of the files
    batch: int | None = None  # smaller than the loader's own, where that takes long
    processors: float = 0.0  # that may be used
    used: float | None = None  # processors that the workers kept busy
    step: float | None = None  # seconds of a training step that has to be fed

    @property
    def computing(self) -> float:
        """Share of a sample's time. A thread that looks find ready to run would compute if it had a processor."""
        measured = min(self.cpu / self.seconds, 1.0) if self.seconds else 0.0
        if self.blocked is not None:
            return max(measured, 1 - self.blocked)
        return max(measured, self.waits.get(PROCESSOR, 0.0) if self.looks >= ENOUGH else 0.0)

    @property
    def in_kernel(self) -> bool:
        """What it computes is mostly the kernel's work of fetching data from a disk."""
        return self.system >= MOST and self.fetched >= MUCH

    @property
    def waited(self) -> float:
        """Seconds a sample."""
        return max(self.seconds - self.cpu, 0.0) if self.blocked is None else self.seconds * self.blocked

    @property
    def reading(self) -> float:
        """Share of the looks that found it waiting for data that it reads."""
        return sum(part for what, part in self.waits.items() if is_reading(what))

    @property
    def sleeping(self) -> float:
        return sum(part for what, part in self.waits.items() if what.split(" ")[0] in SLEEPS)

    @property
    def reads(self) -> bool:
        """What it waits for is data. A reader that sleeps between its pieces counts, if a good deal is read so."""
        waiting = 1 - self.waits.get(PROCESSOR, 0.0)
        if self.looks < ENOUGH or waiting <= 0:
            return False
        paced = self.sleeping >= MOST * waiting and self.waited >= PACED and self.asked >= MUCH
        return self.reading >= MOST * waiting or paced


def is_reading(what: str) -> bool:
    """`read file`, `recvfrom socket`, `poll socket`; waiting for a file to be opened or found."""
    call, _, kind = what.partition(" ")
    return (
        call in READS
        or what in READS
        or call in OPENS
        or (call in POLLS and kind in ("socket", "pipe", "fifo", "file"))
    )


def processors(settings: Settings | None) -> float:
    """That may be used here."""
    if settings is None:
        return 1.0
    known = [one for one in (settings.processors_allowed, settings.processors_quota, settings.processors) if one]
    return float(min(known, default=1))


# What was tried on purpose with somebody's loader: rung by rung, setting by setting. Seconds and bytes.
PASS, FAIL, SKIP = "pass", "fail", "skip"


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the user named, and what it gave."""

    name: str  # path.py:callable or module:callable
    kwargs: dict[str, Any] = {}
    gave: str = ""  # DataLoader, Dataset, IterableDataset, LightningDataModule, WebLoader
    loader: Loader | None = None  # as it is configured


class Rung(msgspec.Struct, frozen=True, omit_defaults=True):
    """One trial of a ladder: a recorded child process with a limit of time and of memory."""

    name: str
    title: str  # what is tried, as people read it
    status: str  # pass, fail, skip
    reason: str = ""  # why it failed or was left out; what it saw, where it passed
    seconds: float = 0.0
    workers: int | None = None
    batches: int = 0
    samples: int = 0
    peak: int = 0  # bytes of memory that all its processes took together
    exit: int | None = None  # as `Exit.status`
    ended: str = ""  # itself, time, memory, stall: what ended it
    failure: Failure | None = None  # that ended it, as it was recorded
    traceback: str = ""  # in full, the worker's included
    findings: list[Finding] = []  # what the rules say of its recording
    folder: str = ""  # of its recording


class Trial(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that one command tried."""

    command: str  # doctor, tune, budget
    target: Target | None = None
    settings: Settings | None = None  # of the machine and the environment
    rungs: list[Rung] = []  # in the order of climbing
    samples: list[Loaded] = []  # loaded one by one, without a DataLoader
    measured: list[Measured] = []
    limit: str = ""  # of the loader, as the differences say: storage, computing, hand-over, workers, balanced
    limit_seen: list[str] = []
    differences: Differences | None = None  # what these rest on
    search: Search | None = None
    proposals: list[Proposal] = []
    budget: Budget | None = None
