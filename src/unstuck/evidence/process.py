"""What one recorded process says of itself. Times are seconds since the run began; sizes are bytes."""

from __future__ import annotations

import msgspec

from .basics import Ordinal, Place, Slowest, Timing
from .distributed import Collective, Group, Phase, Prepared, Span, Wrapped
from .frameworks import Framework
from .loader import Buckets, Call, Compiled, DataFile, Fetching, Loader, Logger, Note, Shards, Skipping, Source

# How a process began, before its first step.


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of the modules that were made: from the first parameter that was registered to the newest."""

    at: float
    ended: float
    parameters: int = 0  # tensors
    elements: int = 0  # numbers in them


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stretch of a rank's way to its first step."""

    rank: int | None
    name: str  # interpreter, imports, model, workers, first sample, first batch, first step, own code, a timed call
    at: float
    seconds: float
    going_on: bool = False
    told: str = ""  # what it did, or what moves while it goes on


# How the threads of a process were set up, and how much of its loading they could have shared.


class Shared(msgspec.Struct, frozen=True, omit_defaults=True):
    """Some batches of one loader, looked at closely: seconds in operations of torch that threads would share."""

    loader: int
    seconds: float = 0.0  # of fetching these batches
    shared: float = 0.0
    batches: int = 0
    names: list[str] = []  # of the operations that took most


class Threads(msgspec.Struct, frozen=True, omit_defaults=True):
    """When the first pass over a loader began."""

    variables: dict[str, str] = {}  # that are set, of those that thread pools follow, and CUDA_VISIBLE_DEVICES
    by_launcher: list[str] = []  # those of them that torchrun has set, and nobody before it
    threads: int | None = None  # with which torch computes
    shared: list[Shared] = []


# What a training tells of itself, by its own words or by what it calls.


class Graph(msgspec.Struct, frozen=True, omit_defaults=True):
    """The largest autograd graph that a variable held on to after an optimizer step."""

    at: float
    step: int
    nodes: int
    tensors: int = 1
    where: Place | None = None  # the function whose variable it is
    limited: bool = False  # there are more nodes than were counted


class Metric(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that the user's code or its logger told."""

    name: str
    value: float | None  # None in a report that was saved: JSON has no word for NaN and the infinite
    step: int
    at: float


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """A checkpoint, or whatever else was written with torch.save."""

    path: str
    at: float
    seconds: float
    size: int | None = None  # bytes that were there when it was done; None: not known
    how: str = ""  # "together" by torch.distributed.checkpoint, "safetensors"; "" by torch.save
    background: bool = False  # the training went on meanwhile: seconds are those it was held up
    writing: float | None = None  # seconds that it took in the background; None: it did not, or goes on
    where: Place | None = None
    failed: str = ""  # the exception that left it, type and message
    causes: list[str] = []  # what led to that, the same way
    errno: int = 0  # of the first OSError among its causes
    free: int | None = None  # bytes on that disk right after it failed
    total: int | None = None  # bytes of that disk
    files: int | None = None  # files for which there was still room
    limit: int | None = None  # largest file that the process may write (RLIMIT_FSIZE)
    inode: int = 0
    # Looked at when the run is judged, of the newest. None: nobody looked.
    there: bool | None = None  # the file, or one of that inode beside it
    size_now: int | None = None
    whole: bool | None = None  # it ends as such a file does; None: it does not show
    step: int = 0  # optimizer steps that the process had made when it was begun


class Saving(msgspec.Struct, frozen=True, omit_defaults=True):
    """A save that goes on, or did when its process ended."""

    path: str
    since: float
    background: bool = False
    where: Place | None = None
    size: int | None = None  # bytes so far; looked at when the run is judged
    expected: int | None = None  # bytes of the newest that was saved from the same line
    seconds: float = 0.0  # for how long, at that moment


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the user's code says something has come."""

    name: str
    have: int
    need: int = 0
    unit: str = ""
    since: float = 0.0
    first: float | None = None  # when it was told first
    rose: float | None = None  # seconds from then until it was told last before it first went down


class StageNow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stage of the user's own, or of an adapter's, that is open at the moment."""

    name: str
    item: str = ""
    since: float = 0.0


# What one recorded process says of itself. Times are seconds since the run began; sizes are bytes.


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
    wall_offset: float | None = None  # of the wall clock over the monotonic one, when its recording was opened
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
    versions: dict[str, str] = {}  # of torch and libraries beside it, as they were imported

    @property
    def failure(self) -> Failure | None:
        """The newest: of a main process, the one that ended it."""
        return self.failures[-1] if self.failures else None

    @property
    def identity(self) -> tuple[str, int]:
        """Nodes and containers have equal pids. Of two processes of a node that had this pid, `opened` tells which."""
        return self.node, self.pid

    @property
    def newest_loader(self) -> Loader | None:
        """The loader that the process had to do with last."""
        return max(self.loaders, key=lambda loader: loader.now_since, default=None)
