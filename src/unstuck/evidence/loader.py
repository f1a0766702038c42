"""What one process says of its DataLoaders, of fetching for them, and of where their data comes from."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from .basics import Ordinal, Place, Timing
from .distributed import Sampling

# What the main thread does beside loading and computing: calls that hold it up, and the gaps that they make.
LOGGER, HTTP, CHECKPOINT, VALIDATION, COLLECTION = "logger", "http", "checkpoint", "validation", "collection"
SYNCHRONIZE, COMPILE, RANKS = "synchronize", "compile", "other ranks"
ENDING, STARTING, FIRST_BATCH, OTHER_LOADER = "ending workers", "starting workers", "first batch", "another loader"
OWN = "own code"
CALLBACK = "callback"  # or a hook of the model's: what it calls that is known by another name is not counted to it


class _State(str, Enum):
    """A state as it is saved and shown: its words. One that a newer version has saved is not known."""

    def __str__(self) -> str:
        return str(self.value)

    __format__ = str.__format__  # type: ignore[assignment]  # the same in an f-string before Python 3.12

    @classmethod
    def _missing_(cls, _: object) -> _State:
        return cls("")


class LoaderState(_State):
    """What the main thread does with a loader."""

    UNKNOWN = ""
    ABOUT_TO_ASK = "about to ask for a batch"
    STARTING = "starting the iterator"
    WAITING = "waiting for a batch"
    IN_BODY = "in the loop's body"
    BETWEEN_PASSES = "between passes"
    ENDING_WORKERS = "ending its workers"


class FetchState(_State):
    """What a process does that loads samples."""

    UNKNOWN = ""
    FETCHING = "fetching"
    LOADING = "loading a sample"
    COLLATING = "collating"
    IDLE = "waiting for an index"


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kind of side work, all the times that one line of the user's asked for it."""

    what: str  # logger, http, checkpoint, collection (of garbage), synchronize, compile, callback
    name: str  # wandb.log, SummaryWriter.add_image, GET 127.0.0.1 …
    where: Place | None = None
    timing: Timing = Timing()
    failed: int = 0  # times that an exception left it
    said: str = ""  # the newest of those, type and message
    at: float = 0.0  # the first time
    last: float = 0.0  # when the newest ended
    since: float | None = None  # the one that goes on


class Part(msgspec.Struct, frozen=True, omit_defaults=True):
    """What part of a gap, or of many, went into."""

    what: str  # as of a Call; validation, other ranks, ending workers, starting workers, first batch, another loader
    name: str
    seconds: float
    count: int = 1
    where: Place | None = None


class Gap(msgspec.Struct, frozen=True, omit_defaults=True):
    """A time in which no batch was asked for: a loop's body, or what lies between two passes."""

    at: float
    seconds: float
    number: int  # of the batch before it, or of the pass
    parts: list[Part] = []

    @property
    def rest(self) -> float:
        """Computing, and code that nothing is known of."""
        return max(self.seconds - sum(one.seconds for one in self.parts), 0.0)


class Logger(msgspec.Struct, frozen=True, omit_defaults=True):
    """A logging library that was set up."""

    name: str  # wandb, mlflow, tensorboard
    mode: str = ""  # online, offline, disabled; "" where the library has no such thing
    folder: str = ""
    address: str = ""
    at: float = 0.0
    where: Place | None = None
    uncommitted: int = 0  # calls with commit=False and no step
    lost: int = 0  # values whose place another value of the same name has taken before the row was written
    lost_at: Place | None = None  # where the first of them was
    settings: dict[str, float] = {}  # limits of its own, as far as they are known
    kept: int = 0  # calls that `unstuck.nonblocking` has taken
    refused: int = 0  # and those of them that the logger never got


class Compiled(msgspec.Struct, frozen=True, omit_defaults=True):
    """torch.compile has compiled a function."""

    at: float
    seconds: float
    where: Place | None = None  # the function
    reason: str = ""  # why again; empty the first time
    count: int = 1  # how often this one was, so far
    limited: bool = False  # it was given up for good: torch compiles no function more often than its limit


# Datasets that sort their files into buckets of one shape and make their batches themselves.


class Buckets(msgspec.Struct, frozen=True, omit_defaults=True):
    """One such dataset, after its buckets were set up."""

    at: float
    dataset: str = ""  # its class
    which: int = 0  # of the datasets of this process: the first is 1; 0: it was told
    step: str = ""  # the method that had just set them up: setup_buckets, build_batch_indices …
    where: Place | None = None  # where that is written
    told: bool = False  # by `unstuck.note`
    files: dict[str, int] = {}  # by bucket, the largest first, as many as are kept
    count: int = 0  # of all buckets
    total_files: int = 0
    batch_size: int | None = None
    batches: int | None = None  # that all buckets together make
    index: str = ""  # the attribute that lists them: batch_indices …
    partial: int | None = None  # those of them that are not full
    seconds: float = 0.0  # that it took to set them up
    loader: int | None = None  # the number of the loader that reads it


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the user's code said about itself, under a tag of its own."""

    tag: str
    at: float
    facts: dict[str, Any] = {}


class Skipping(msgspec.Struct, frozen=True, omit_defaults=True):
    """Batches that a resumed training passes over."""

    who: str  # accelerate.skip_first_batches, StatefulDataLoader …
    since: float
    skipped: int = 0
    of: int | None = None
    seconds: float = 0.0  # that it took so far
    ended: bool = False
    loader: int = 0  # the number of the loader they come from


# Where data comes from before it is a batch: files that are read, documents, tokens.


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """One function of a data library that a process calls, by the line that calls it."""

    kind: str  # rows (of a file), tokens, map
    name: str  # pyarrow.parquet, tokenizers, tiktoken, transformers, datasets.map …
    where: Place | None = None
    calls: Timing = Timing()
    items: int = 0  # rows read, documents handed in
    made: int = 0  # tokens
    looked: int = 0  # rows whose text was looked at
    blank: int = 0  # those of them without any
    groups: int = 0  # row groups read
    files: int = 0  # opened
    threads: int | None = None  # that it was told to use
    at: float = 0.0  # of the first call
    last: float = 0.0  # when the newest ended
    since: float | None = None  # of the call that goes on
    again: int = 0  # calls that brought nothing that had not been there before, at least
    later: float = 0.0  # seconds of its calls after the first optimizer step, as far back as the recording has them
    before: float | None = None  # when the last before that step ended; None: there was none, or it is not recorded


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of data that was opened."""

    path: str
    at: float
    groups: int | None = None  # row groups
    rows: int | None = None
    size: int | None = None
    opened: int = 1  # times, at least
    number: int = 0  # in the list of files that the user's code goes through; 0: not known
    listed: int = 0  # files in it


# Streams of files: which part of them each process goes through, and what went wrong with which.


class ShardError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shard that could not be opened or read, or a sample of it that could not be decoded."""

    path: str
    type: str
    message: str = ""
    at: float = 0.0
    stage: str = ""  # open, read, decode, map …
    handler: str = ""  # the function that decided what comes of it; empty: the exception was raised
    goes_on: bool = False  # it said: continue
    rest_lost: bool = False  # nothing more of this shard is read
    list_lost: bool = False  # nor of any other after it
    before: int = 0  # samples that it had given until then
    slept: float = 0.0  # seconds that the handler took
    key: str = ""  # of the sample
    gave: int | None = None  # samples that came of this shard in all; None: it was not left yet
    usual: int = 0  # the most samples that this process had had of a shard until then


class ShortShard(msgspec.Struct, frozen=True):
    """A file that was read to its end, as it seemed, and gave fewer samples than another."""

    path: str
    samples: int
    usual: int  # the most that another gave


class Shards(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process's part of one list of files."""

    library: str  # webdataset, datasets, litdata, streaming
    name: str = ""  # of the list: a pattern, a folder, a dataset
    where: Place | None = None  # the user's line that made it
    total: int | None = None  # files in the list
    of_rank: int | None = None  # that are left for this rank
    mine: int | None = None  # that are left for this process; after a pass: that it went through
    ranks: int | None = None  # over which they were shared out; 1: they were not
    workers: int | None = None
    empty_check: bool = False  # a process that gets no sample at all is an error
    resampled: bool = False  # drawn with replacement: nobody goes without
    splitter: str = ""  # the function that shares them out over ranks; empty: none
    buffer: int = 0  # samples of its largest shuffle buffer
    steps: list[str] = []  # where its samples come from, and what is done with them: files, filter, shuffle …
    at: float = 0.0
    passes: int = 0  # that came to their end
    usual: int = 0  # the most samples that one of them gave which was read to its end
    opened: int = 0
    finished: int = 0  # gone through to their end
    samples: int = 0
    failed: int = 0
    now: str = ""  # the newest
    now_since: float = 0.0
    short: list[ShortShard] = []  # the shortest first
    errors: list[ShardError] = []  # the first, and the newest


# What one recorded process says of its DataLoaders and of fetching for them.


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
    now: LoaderState = LoaderState.UNKNOWN
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

    @property
    def name(self) -> str:
        """`DataLoader[Spectra] (train.py:24)`: what it loads, and the line that made it."""
        dataset = self.dataset.rpartition(".")[2]
        kind = "torchdata.Loader" if self.type.startswith("torchdata.nodes") else "DataLoader"
        name = f"{kind}[{dataset}]" if dataset else kind
        if self.created is None:
            return name
        return f"{name} ({self.created.file.rpartition('/')[2]}:{self.created.line})"


class HeldBack(msgspec.Struct, frozen=True, omit_defaults=True):
    """Samples that a stream had read and not given when the first batch of a pass was there."""

    number: int  # of the pass, the first is 1
    name: str  # of the variable that holds them
    held: int
    at: float = 0.0
    of: str = ""  # whose variable it is
    size: int | None = None  # the most it may hold, where its owner says so
    shuffles: bool = False  # what holds it draws at random


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
    now: FetchState = FetchState.UNKNOWN
    now_since: float = 0.0
    index: int | str | None = None
    handed: list[Handed] = []
    # What stands for the content of the first batches of a pass, in order, by pass: of iterable datasets only.
    digests: list[list[int]] = []
    dropped: int = 0  # samples of batches that remained incomplete at the end of a stream and were dropped
    states: list[State] = []
    held_back: list[HeldBack] = []  # samples that its stream held back when the first batch of a pass was there
