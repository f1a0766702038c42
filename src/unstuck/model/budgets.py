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
