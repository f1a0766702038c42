"""What the descriptors of a process were spent on when it had none left."""

from __future__ import annotations

from .evidence import Evidence
from .fatal import fatal
from .phrases import many
from .questions import host_of
from .raised import Raised
from .recorded import Failure, Process

SHARED = "shared memory"
OPENED = ("file", "socket", "pipe")
WORDS = ("Too many open files", "received 0 items of ancdata", "[Errno 24]")
COUNTED = 4096  # descriptors that the recording looks at, however many there may be
# torch complains up to ten descriptors early, and some are closed again on the way out of the exception.
ALL_BUT = 0.75
MOST = 0.5  # of all that are open: what takes more than the rest together is what they were spent on


def ran_out(evidence: Evidence) -> list[Raised]:
    """Failures for want of a descriptor in the very process that had none left, the first one first.

    The text alone is not enough: a main process repeats what its worker said.
    """
    return [one for one in fatal(evidence) if _says_so(one.failure) and _none_left(one.failure)]


def _says_so(failure: Failure) -> bool:
    texts = [failure.message, *(message for _, message in failure.causes)]
    return any(word in text for word in WORDS for text in texts)


def _none_left(failure: Failure) -> bool:
    limit = failure.descriptor_limit or 0
    return limit > 0 and sum(failure.descriptors.values()) >= ALL_BUT * min(limit, COUNTED)


def spent_on(failure: Failure) -> str | None:
    """The kind that takes most of them; none, if there is no such."""
    kinds = failure.descriptors
    kind = max(kinds, key=lambda one: kinds[one], default=None)
    return kind if kind is not None and kinds[kind] >= MOST * sum(kinds.values()) else None


def listed(failure: Failure) -> str:
    """114 files, 9 pipes, 2 shared memory."""
    kinds = sorted(failure.descriptors.items(), key=lambda kind: -kind[1])
    return ", ".join(many(count, kind) if kind in OPENED else f"{count:,} {kind}" for kind, count in kinds)


def over_time(evidence: Evidence, process: Process) -> list[tuple[float, int]]:
    """How many descriptors a process had open, and when that was seen."""
    host = host_of(evidence, process)
    return [
        (sample.at, memory.descriptors)
        for sample in (host.samples if host is not None else ())
        for memory in sample.processes
        if memory.pid == process.pid and memory.descriptors is not None
    ]
