"""Parts of a rank's log that need nothing but their own kinds of rare events: one file each, named here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..recordings.decoder import Record
from ..recordings.tail import Tail
from .buckets import BucketLines
from .line import Line
from .preparing import Preparing
from .shards import ShardLines
from .trainers import Trainers


class Part(Protocol):
    """What makes lines of some kinds of events."""

    name: str  # how the process is called in its lines

    def readers(self) -> dict[int, Callable[[Record], list[Line]]]: ...


PARTS = (Preparing, Trainers, ShardLines, BucketLines)
KINDS = tuple(kind for part in PARTS for kind in part.KINDS)


def parts(tail: Tail) -> list[Part]:
    return [part(tail) for part in PARTS]
