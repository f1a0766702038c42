"""What one recorded process says of itself. Times are seconds since the run began; sizes are bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from .beginning import HeldBack, Model
from .between import Call, Compiled, Gap, Logger, Part
from .buckets import Buckets, Note, Skipping
from .distributed import Collective, Group, Phase, Prepared, Sampling, Span, Wrapped
from .frameworks import Framework
from .numbers import Ordinal
from .places import Place
from .shards import Shards
from .sources import DataFile, Source
from .threads import Threads
from .timing import Slowest, Timing
from .told import Graph, Metric, Progress, Saved, Saving, StageNow


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


class Pass(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pass over a loader that came to its end: nobody broke out of it."""

    number: int  # the first is 1
    batches: int
    at: float = 0.0


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dataset at the beginning of a pass, as the process that holds this copy of it has it."""

    at: float
    number: int  # of the pass, as this process counts them: the first is 1
    numbers: dict[str, int] = {}  # whole numbers among its attributes
    # Random generators it can draw from ("self.rng", and "random", "numpy", "torch" for the global ones): what stands
    # for the state of each before the first batch of the pass, and after it ("": it was not looked at again). The type
    # comes first: "numpy.Generator 505b1c54".
    generators: dict[str, tuple[str, str]] = {}


class Handed(msgspec.Struct, frozen=True, omit_defaults=True):
    """One batch that a process has made, looked at once it was collated."""

    at: float
    batch: int  # of this process, the first is 0
    tensors: int = 0
    size: int = 0  # of what the tensors show
    storage: int = 0  # of the memory they are views of, which is what is handed over


class Loader(msgspec.Struct, frozen=True, omit_defaults=True):
    """One DataLoader of a process: how it was made and what it gave."""

    number: int
    type: str = ""
    dataset: str = ""
    created: Place | None = None
    reads_at: Place | None = None
    iterable: bool = False
    batch_size: Ordinal | None = None
    num_workers: Ordinal = 0
    prefetch_factor: Ordinal | None = None
    persistent_workers: bool = False
    drop_last: bool = False
    shuffle: bool = False
    pin_memory: bool = False
    in_order: bool = True
    worker_init_fn: str | None = None
    timeout: float = 0.0
    sampler: str | None = None
    batch_sampler: str | None = None
    sampler_at: Place | None = None  # where a sampler of somebody's own draws
    sampler_holds: bool = False  # the dataset itself: it could read it
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
    recent_waits: list[float] = []  # the newest of the newest pass, in order, without its first batch
    arrived: list[tuple[int, float]] = []  # the newest batches of a rank: of which pass, and when each came
    containers: dict[str, int] = {}  # lists, dicts and the like among the dataset's attributes: how many items each has
    files: dict[str, int] = {}  # those of them that hold paths or addresses
    ended: list[Pass] = []  # the first sixteen, then those that brought another number of batches than the one before
    states: list[State] = []  # of the main process's own copy of the dataset
    resumed: list[float] = []  # when a saved state was loaded into it
    sampling: list[Sampling] = []  # of a distributed sampler, the first passes
    sent: int = 0  # bytes that were written to workers while they were started: the dataset, where it is pickled
    made: float | None = None  # when the loader was made
    began: float | None = None  # when its first pass was asked for
    first: list[float] = []  # seconds that the first batches of its first pass were waited for, in order
    first_at: float | None = None  # when the first of them came
    first_shapes: str = ""  # of that batch: types and shapes
    first_device: str = ""
    drawing: Timing = Timing()  # indices from its sampler, in the main process
    gaps: list[Gap] = []  # the longest times between two batches, as far back as the recording has its details
    boundaries: list[Gap] = []  # from the last batch of a pass to the first of its next, the newest
    between: list[Part] = []  # what all times between two batches went into that the recording has details of
    between_of: Timing = Timing()  # and how long they were
    # Who makes it, and is told how: TrainingArguments, wds.WebLoader, Data.train_dataloader; empty: the user himself.
    made_by: str = ""


class Fetching(msgspec.Struct, frozen=True, omit_defaults=True):
    """What fetching batches cost a process, for one loader (0 in a worker: it has only one)."""

    loader: int
    batches: int = 0
    samples: int = 0
    fetches: Timing = Timing()
    sample_times: Timing = Timing()
    collates: Timing = Timing()
    cpu: Timing = Timing()  # of one batch in eight, in 64 where they are short
    cpu_of: Timing = Timing()  # how long those same batches took; empty in older recordings
    idle: Timing = Timing()
    handovers: Timing = Timing()
    now: str = ""
    now_since: float = 0.0
    index: int | str | None = None
    handed: list[Handed] = []
    # What stands for the content of the first batches of a pass, in order, by pass: of iterable datasets only.
    digests: list[list[int]] = []
    dropped: int = 0  # samples of batches that remained incomplete at the end of a stream and were dropped
    states: list[State] = []
    held_back: list[HeldBack] = []  # samples that its stream held back when the first batch of a pass was there


class ShmFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file in /dev/shm."""

    name: str
    size: int
    age: float = 0.0  # seconds since it was written
    owner: int | None = None  # the pid that torch puts into its files' names
    owner_alive: bool = False


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception that a process left as its last words."""

    # uncaught, thread, init (worker_init_fn), fetch (in a worker), feeder (its batch could not be sent), exit (sys.exit
    # was called while it was handled, which may not have ended the process)
    how: str
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
    shm_files: list[ShmFile] = []  # where there was no space left: the largest
    shm_count: int = 0  # and how many there were
    shapes: list[str] = []  # where a batch could not be collated: its samples one by one
    unpicklable: list[str] = []  # where workers were not started, or a batch not sent: "dataset.lock (_thread.lock)"
    culprit: Place | None = None  # where the first of these is written, if it is a function
    descriptors: dict[str, int] = {}  # where they ran out: how many of which kind were open
    open_files: list[str] = []  # and some of the files
    descriptor_limit: int | None = None
    maps: int | None = None  # where memory could not be mapped: how many mappings there were
    maps_limit: int | None = None
    caught: bool = False  # the program caught it, and exited with a code


class Process(msgspec.Struct, frozen=True, omit_defaults=True):
    """One recorded process."""

    node: str
    pid: int
    parent: int
    role: str
    rank: Ordinal | None = None
    local_rank: Ordinal | None = None
    world: Ordinal | None = None
    worker: Ordinal | None = None
    workers: Ordinal | None = None
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
    graphs: list[Graph] = []
    metrics: list[Metric] = []  # the newest of each name
    saved: list[Saved] = []  # those that failed too
    saving: list[Saving] = []  # at this moment
    attempt: int = 0  # of the run: a launcher that starts it anew counts them
    group: Group | None = None
    spans: list[Span] = []  # the newest, in the order of their beginning
    wrapped: list[Wrapped] = []
    prepared: list[Prepared] = []
    collectives: list[Collective] = []  # the newest, oldest first, as torch's Flight Recorder had them
    traced: float | None = None  # when that was; None: nobody asked, or it did not answer
    trace_refused: str = ""  # why there is nothing, where it was asked
    phases: list[Phase] = []  # the newest, in the order of their beginning
    crash: list[Place] = []  # its Python stack when native code crashed it, the innermost last; paths may be shortened
    started: float | None = None  # when its interpreter was, as the kernel has it
    imported: float | None = None  # when `import torch` was through
    processors: int | None = None  # that it might run on when its recording began: at `import torch`, in a new worker
    model: Model | None = None
    first_sample: float | None = None  # of this process, loaded
    first_step: float | None = None
    device: str = ""  # of its optimizer's parameters, at that step
    calls: list[Call] = []  # side work of its main thread, by name and line
    loggers: list[Logger] = []
    compiled: list[Compiled] = []  # the newest
    collecting: Timing = Timing()  # garbage, since its first pass over a loader began
    sources: list[Source] = []
    data_files: list[DataFile] = []  # the first, and the newest
    stage_cpu: dict[str, Timing] = {}  # processor time of each stage; of readers and decoders, of one call in eight
    stage_cpu_of: dict[str, Timing] = {}  # how long those same times took; empty in older recordings
    stage_read: dict[str, int] = {}  # bytes that were asked for in them
    stage_fetched: dict[str, int] = {}  # and that came from a disk
    staged: float = 0.0  # seconds of loading samples in stages, those inside of others not counted again
    slowest: list[Slowest] = []
    crash_beside: list[Place] = []  # the same of its main thread, where the thread that crashed was none of Python's
    frameworks: list[Framework] = []  # in the order of their beginning
    shards: list[Shards] = []
    buckets: list[Buckets] = []
    notes: list[Note] = []
    skipping: list[Skipping] = []
    threads: Threads | None = None

    @property
    def failure(self) -> Failure | None:
        """The newest: of a main process, the one that ended it."""
        return self.failures[-1] if self.failures else None
