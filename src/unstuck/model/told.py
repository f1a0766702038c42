"""What a training tells of itself, by its own words or by what it calls."""

from __future__ import annotations

import msgspec

from .places import Place


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
