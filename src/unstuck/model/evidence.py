"""Evidence: everything the probes saw of a run, as plain data that rules judge and reports carry along.

A section that is None was not looked at. Times are seconds since the run began; sizes are bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .look import Gpu, Sampled, Seen, Stack, Stall


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of code."""

    file: str
    line: int = 0
    function: str = ""


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    """Durations of one kind of event, all of them, in seconds."""

    count: int = 0
    total: float = 0.0
    longest: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


class Spike(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wait for a batch that took far longer than most, and the fetch it was waited for."""

    at: float
    seconds: float
    batch: int  # of its pass
    worker: int | None = None  # who fetched it
    pid: int | None = None
    fetch_seconds: float = 0.0
    index: int | None = None  # of the sample that took longest
    sample_seconds: float = 0.0  # 0: samples of this batch were not timed one by one
    idle: int = 0  # other workers that had nothing to do for most of it


class Loader(msgspec.Struct, frozen=True, omit_defaults=True):
    """One DataLoader of a process: how it was made and what it gave."""

    number: int
    type: str = ""
    dataset: str = ""
    created: Place | None = None
    reads_at: Place | None = None
    iterable: bool = False
    batch_size: int | None = None
    num_workers: int = 0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    drop_last: bool = False
    shuffle: bool = False
    pin_memory: bool = False
    in_order: bool = True
    worker_init_fn: str | None = None
    timeout: float = 0.0
    sampler: str | None = None
    batch_sampler: str | None = None
    collate_fn: str | None = None
    context: str | None = None
    attributes: dict[str, Any] = {}
    dataset_length: int | None = None
    length: int | None = None
    passes: int = 0
    batches: int = 0
    optimizer_steps: int = 0
    waits: Timing = Timing()  # for every batch but the first of a pass
    first_waits: Timing = Timing()
    bodies: Timing = Timing()  # what the loop did with a batch, until it asked for the next
    starts: Timing = Timing()  # creating the iterator, workers included
    failed: str | None = None  # why an iterator could not be created
    pids: list[int] = []  # workers, of the newest pass last
    now: str = ""
    now_since: float = 0.0
    pass_batches: int = 0  # of the newest pass
    shutdowns: Timing = Timing()  # ending its workers
    skipped: Timing = Timing()  # those of `waits` before the first optimizer step: a resumed run passes over batches
    skipped_bodies: float = 0.0  # seconds of `bodies` between them
    spikes: list[Spike] = []  # the longest waits that stand out, as far back as the recording has its details
    spiked: float = 0.0  # seconds of all waits that stand out
    spiked_of: float = 0.0  # seconds of looping among which these were looked for


class Fetching(msgspec.Struct, frozen=True, omit_defaults=True):
    """What fetching batches cost a process, for one loader (0 in a worker: it has only one)."""

    loader: int
    batches: int = 0
    samples: int = 0
    fetches: Timing = Timing()
    sample_times: Timing = Timing()
    collates: Timing = Timing()
    cpu: Timing = Timing()
    idle: Timing = Timing()
    handovers: Timing = Timing()
    now: str = ""
    now_since: float = 0.0
    index: int | str | None = None


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception that a process left as its last words."""

    how: str  # uncaught, thread, fetch (in a worker), feeder (its batch could not be sent)
    type: str
    message: str = ""
    at: float = 0.0
    thread: str = ""
    frames: list[Place] = []
    causes: list[tuple[str, str]] = []
    paths: list[str] = []
    index: int | str | None = None
    indices: list[int | str] = []
    batch: int | None = None
    position: int | None = None
    collating: bool = False
    stage: str | None = None
    item: str | None = None
    shm_size: int | None = None
    shm_free: int | None = None


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the user's code says something has come."""

    name: str
    have: int
    need: int = 0
    unit: str = ""
    since: float = 0.0


class StageNow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stage of the user's own, or of an adapter's, that is open at the moment."""

    name: str
    item: str = ""
    since: float = 0.0


class Process(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recorded process."""

    node: str
    pid: int
    parent: int
    role: str
    rank: int | None = None
    local_rank: int | None = None
    world: int | None = None
    worker: int | None = None
    workers: int | None = None
    opened: float = 0.0
    last_sign: float = 0.0  # of the newest thing it wrote
    ended: float | None = None
    ended_how: str = ""
    alive: bool = False
    loaders: list[Loader] = []
    fetching: list[Fetching] = []
    stages: dict[str, Timing] = {}
    progress: list[Progress] = []
    optimizer_steps: int = 0
    last_step: float | None = None
    failures: list[Failure] = []  # the first that was raised, and the newest
    cost: Timing = Timing()
    size: int = 0  # of its recording
    adapters_failed: list[str] = []
    stack_signal: int = 0  # the signal at which it writes its stacks down; 0: none
    threads_at_fork: int | None = None  # of its parent; None: it was not forked
    thread_names_at_fork: list[str] = []
    stages_now: list[StageNow] = []

    @property
    def failure(self) -> Failure | None:
        """The newest: of a main process, the one that ended it."""
        return self.failures[-1] if self.failures else None


class Exit(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a process ended, and who saw it."""

    pid: int
    status: int  # an exit code, or a signal as a negative number
    at: float
    how: str  # waited (by the watcher), reaped (by its parent), peeked (by its parent, while an exception was leaving)
    by: int = 0


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Resident memory of one process, by kind: private, of mapped files, shared."""

    pid: int
    private: int = 0
    files: int = 0
    shared: int = 0
    descriptors: int | None = None


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
    processes: list[Memory] = []


class Host(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node of the run, over time."""

    node: str
    cpus: int = 0
    descriptor_limit: int | None = None
    cgroup: str | None = None
    samples: list[Sample] = []
    watcher_ended: bool = False
    processes_alive: bool = False
    unrecorded: list[str] = []


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


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """All sections. A rule names those it needs."""

    run: Run
    recording: list[Process] | None = None
    exits: list[Exit] | None = None
    host: list[Host] | None = None
    processes: list[Seen] | None = None
    stacks: list[Stack] | None = None
    samples: list[Sampled] | None = None
    gpus: list[Gpu] | None = None
    stall: Stall | None = None
    looked_at: float | None = None  # when the processes were, as seconds since the run began
    unreadable: list[str] = []

    def process(self, pid: int) -> Process | None:
        return next((one for one in self.recording or () if one.pid == pid), None)

    def mains(self) -> list[Process]:
        return [one for one in self.recording or () if one.role == "main"]

    def loader_of(self, worker: Process) -> tuple[Process, Loader] | None:
        """The main process and loader that a worker belongs to."""
        for main in self.recording or ():
            for loader in main.loaders:
                if worker.pid in loader.pids and main.pid == worker.parent:
                    return main, loader
        return None
