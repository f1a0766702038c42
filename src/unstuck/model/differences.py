"""What a sample of a loader costs, and what remains where a part of its work is taken away. Seconds and bytes."""

from __future__ import annotations

import msgspec

from .places import Place
from .settings import Settings

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
    return call in READS or call in OPENS or (call in POLLS and kind in ("socket", "pipe", "fifo", "file"))


def processors(settings: Settings | None) -> float:
    """That may be used here."""
    if settings is None:
        return 1.0
    known = [one for one in (settings.processors_allowed, settings.processors_quota, settings.processors) if one]
    return float(min(known, default=1))
