"""What a rank says of its part in a distributed run. Times are seconds since the run began."""

from __future__ import annotations

import msgspec

from .basics import Ordinal, Place


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """The default process group: made, or still being made."""

    at: float  # when init_process_group was called
    ended: float | None = None  # when it returned; None: it has not
    backend: str = ""
    rank: Ordinal | None = None
    world: Ordinal | None = None
    timeout: float | None = None  # seconds, of its collectives
    address: str = ""  # of the store that all meet at
    where: Place | None = None
    failed: bool = False  # it raised
    variables: dict[str, str] = {}  # of NCCL, gloo and torch.distributed, as they were set


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call in which a rank waits for the others, or a block that the ranks treat differently, by name.

    barrier, monitored_barrier, wait_for_everyone, main_process_first, gather_for_metrics, Join …
    """

    name: str
    at: float
    ended: float | None = None  # None: it is still in there
    where: Place | None = None
    failed: bool = False  # an exception left it


class Collective(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of torch's Flight Recorder: a collective that this rank has called, or torch for it (as DDP does)."""

    sequence: int  # within its group, the same on all ranks for what should be the same call
    operation: str  # all_reduce, barrier, broadcast …
    at: float
    finished: bool = False
    group: str = ""  # "" is the default group
    sizes: list[list[int]] = []  # of its input
    where: Place | None = None  # the user's line
    calls: str = ""  # what that line called: backward, barrier, __init__ …
    timeout: float | None = None  # seconds


class Wrapped(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model that was made distributed."""

    kind: str  # DistributedDataParallel …
    at: float
    where: Place | None = None
    find_unused_parameters: bool = False
    static_graph: bool = False
    parameters: int = 0  # tensors that take part
    names: list[str] = []  # of the first of them, in the order of their indices


class Loading(msgspec.Struct, frozen=True, omit_defaults=True):
    """A DataLoader as accelerate sees it, before or after `prepare`."""

    type: str = ""
    length: int | None = None  # None: it has none, or asking for it failed
    batch_size: int | None = None
    batch_sampler: str | None = None  # its class; the innermost, where it is wrapped in shards
    shards: list[str] = []  # classes that are wrapped around it, outermost first
    sampler: str | None = None
    drop_last: bool = False
    iterable: bool = False
    dataset_length: int | None = None
    batches: int | None = None  # what the innermost batch sampler gives, before it is shared out
    even_batches: bool | None = None
    failed: str = ""  # why the length could not be had


class Prepared(msgspec.Struct, frozen=True, omit_defaults=True):
    """One DataLoader that went through accelerate's `prepare`."""

    at: float
    before: Loading
    after: Loading | None = None  # None: prepare has not returned, or raised
    processes: int = 1
    index: int = 0  # of this process
    device: str = ""
    even_batches: bool | None = None
    split_batches: bool = False
    dispatch_batches: bool | None = None
    loader: int | None = None  # the number of the loader that came out of it
    where: Place | None = None


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """A distributed sampler at the beginning of a pass."""

    number: int  # of the pass: the first is 1
    kind: str = ""  # its class
    epoch: int | None = None
    seed: int | None = None
    shuffle: bool = False
    drop_last: bool = False
    replicas: int = 1
    rank: int = 0
    samples: int = 0  # that this rank is given
    dataset_length: int | None = None  # only where it is known to be asked for anyway
    standard: bool = False  # the order is torch's own: no class of the user's makes another of it
    dataset: int = 0  # which one: the first that was met is 1; 0: not known


class Phase(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stretch of a rank's way: training, validation, a checkpoint, or what the user calls it."""

    kind: str  # training, validation, checkpoint, or a name of the user's; "" where it does not show
    number: int  # the epoch: the first is 0
    at: float
    ended: float | None = None  # None: it goes on
    loader: int | None = None
    number_of_pass: int | None = None  # of that loader
    batches: int = 0
    steps: int = 0  # of optimizers
    left: bool = False  # the loop was left before the loader's end
    told: bool = False  # by the user, with unstuck.phase


class Attempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """An earlier attempt of this run, which its launcher has replaced by another."""

    number: int  # the first is 0
    began: float
    ended: float
    ranks: int = 0
    rank: int | None = None  # that died first
    pid: int | None = None
    status: int | None = None  # of that rank, as Exit.status
    type: str = ""  # of the exception that ended it
    message: str = ""
    where: Place | None = None
    steps: int = 0  # optimizer steps it did, of the rank that did most
    batches: int = 0
