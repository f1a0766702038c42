"""What one recorded process says of its DataLoaders and of fetching for them."""

from __future__ import annotations

from typing import Any

import msgspec

from .beginning import HeldBack
from .between import Gap, Part
from .distributed import Sampling
from .numbers import Ordinal
from .places import Place
from .timing import Timing


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
