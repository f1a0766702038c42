"""Throughput of a loader, as it was measured with given settings."""

from __future__ import annotations

import msgspec


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
