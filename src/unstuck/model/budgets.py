"""Memory that a loader needs, predicted before it runs. Bytes."""

from __future__ import annotations

import msgspec

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


class Term(msgspec.Struct, frozen=True, omit_defaults=True):
    """One summand, for one rank."""

    name: str
    size: int
    how: str  # the multiplication in words: "8 workers × prefetch 2 × batch of 32 × 1.2 MiB"
    measured: bool = True  # else assumed, or given as a number
    shm: bool = False  # of it lies in /dev/shm


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
