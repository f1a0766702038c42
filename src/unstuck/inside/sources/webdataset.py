"""A pass over a pipeline of webdataset's: its part of the shards, and what became of each. Nothing of it is called."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

from ..core.frames import user_frame, variables
from ..core.objects import attributes_of
from ..core.recorder import clock
from ..failures.exceptions import message_of
from ..redaction import redacted
from .shards import LONGEST, SOON, Part, part_of

LIBRARY = "webdataset"
BY_NODE, ONE_NODE, BY_WORKER = "split_by_node", "single_node_only", "split_by_worker"
RESAMPLING = ("ResampledShards", "ResampledShardList", "MultiShardSample")
OPENERS = ("StreamingOpen", "FileCache", "tarfile_samples", "tar_file_expander", "url_opener", "cached_tarfile_samples")
GROUPERS = ("group_by_keys", "tarfile_samples", "cached_tarfile_samples")
OPENING = ("__call__", "url_opener")  # functions that ask a handler about a shard they could not open
READING = ("tar_file_iterator", "tar_file_expander")
MADE = "_unstuck_made"  # attribute of a pipeline: the line that made it; copies of the pipeline have it too


class Walk:
    """One pass."""

    __slots__ = ("before", "counts_files", "key", "lost", "open", "part", "taken")

    def __init__(self, part: Part, *, grouped: bool) -> None:
        self.part = part
        self.counts_files = not grouped  # nobody of the library's puts samples together: names of files tell them apart
        self.taken = 0
        self.open = self.lost = False
        self.key = ""
        part.begins()

    def takes(self, source: Any) -> Any:
        self.taken += 1
        return source

    def opens(self, path: str) -> None:
        """Of a shard that broke off, the last sample is handed on with the first files of the next."""
        self.closes()
        late = -1 if self.lost and self.part.before > 0 else 0
        self.open, self.lost, self.key = True, False, ""
        self.part.opens(path)
        self.part.before = late

    def closes(self) -> None:
        if self.open and not self.lost:
            self.part.finishes()
        self.open = False

    def ends(self) -> None:
        self.closes()
        self.part.ends(self.taken)

    def delivers(self) -> None:
        """The same as part.delivers(), for every sample there is."""
        part = self.part
        part.samples += 1
        part.before += 1
        if clock() - part.shown > SOON:
            part.show()

    def has_file(self, name: str) -> None:
        folder, _, file = name.rpartition("/")
        key = folder + file.partition(".")[0]
        if key != self.key:
            self.key = key
            self.delivers()

    def fails(self, error: Exception, handler: Any, answer: object, frame: FrameType, slept: int) -> None:
        """`answer`: what the handler said; None if it raised."""
        code, known = frame.f_code.co_name, variables(frame)
        stage = "open" if code in OPENING else "read" if code in READING else _stage(code, known)
        if code == READING[1] and _holds_nothing(known):
            stage = "open"  # so that nothing is read of it: a command that fails is opened all the same
        raised = answer is None
        lost = stage == "read" and (code == READING[1] or _in_tarfile(error))
        if lost:
            self.lost = True
        facts: dict[str, Any] = {"goes_on": bool(answer), "rest_lost": lost and not raised, "slept": slept}
        facts["message"] = _message(error)
        facts["list_lost"] = not raised and not answer and code != READING[0]  # a stage that stops gives no more
        self.part.fails(error, stage, handler="" if raised else _name(handler), **facts, **_about(known, stage))


class Here(threading.local):
    """The pass that this thread is putting together."""

    walk: Walk | None = None


def begin(pipeline: Any) -> Walk | None:
    """None when nothing records, and for a pipeline that reads no shards, such as one behind a DataLoader."""
    stages = attributes_of(pipeline).get("pipeline")
    if type(stages) is not list or not stages or not _reads_shards(stages):
        return None
    part = part_of(LIBRARY, None, where=_where(pipeline), **facts_of(stages))
    return None if part is None else Walk(part, grouped=any(_called(one) in GROUPERS for one in stages))


def _reads_shards(stages: list[Any]) -> bool:
    """It begins with a list of them, or has a stage that opens them."""
    listed = type(attributes_of(stages[0]).get("urls")) is list and type(stages[0]).__module__.startswith(LIBRARY)
    return listed or any(_called(one) in OPENERS for one in stages)


def facts_of(stages: list[Any]) -> dict[str, Any]:
    """As fields of model.shards.Shards."""
    urls = attributes_of(stages[0]).get("urls")
    first = type(stages[0]).__name__
    total = len(urls) if type(urls) is list else None
    at = next((number for number, one in enumerate(stages) if _called(one) in OPENERS), len(stages))
    names = [_called(one) for one in stages[1:at]]
    resampled = first in RESAMPLING or "resampled_" in names
    rank, world, worker, workers = _place()
    others = [name for name in names if name not in (BY_NODE, ONE_NODE, BY_WORKER, "_shuffle", "detshuffle")]
    facts: dict[str, Any] = {"total": total, "resampled": resampled, "name": _list_name(urls)}
    own = others[0] if others and at < len(stages) else ""  # else it may be what opens them
    facts["splitter"] = next((one for one in names if one in (BY_NODE, ONE_NODE)), own)
    facts["empty_check"] = any(_called(one) == "check_empty" for one in stages)
    facts["buffer"] = max((_buffer(one) for one in (stages[at:] or stages)), default=0)
    if total is not None and not resampled and not others:
        facts["ranks"] = world if BY_NODE in names else 1
        facts["workers"] = workers if BY_WORKER in names else 1
        facts["of_rank"] = len(range(rank, total, world)) if BY_NODE in names else total
        facts["mine"] = len(range(worker, facts["of_rank"], workers)) if BY_WORKER in names else facts["of_rank"]
    return facts


def made(pipeline: Any, frame: FrameType) -> None:
    line = user_frame(frame)
    if line is not None and MADE not in attributes_of(pipeline):
        setattr(pipeline, MADE, (line.f_code.co_filename, line.f_lineno, line.f_code.co_name))


def finish(walk: Walk) -> Iterator[Any]:
    """Comes after the last shard, and is empty."""
    walk.ends()
    yield from ()


def _where(pipeline: Any) -> dict[str, Any] | None:
    told = attributes_of(pipeline).get(MADE)
    return dict(zip(("file", "line", "function"), told, strict=True)) if type(told) is tuple else None


def _place() -> tuple[int, int, int, int]:
    """Rank, ranks, worker and workers, as the library itself sees them."""
    library = sys.modules.get("webdataset.utils")
    found = getattr(library, "pytorch_worker_info", lambda: (0, 1, 0, 1))()
    return found if type(found) is tuple and len(found) == 4 else (0, 1, 0, 1)


def _called(stage: Any) -> str:
    """A stage by the function behind it, or by its type."""
    function = attributes_of(stage).get("f") or stage
    return str(getattr(function, "__name__", "") or type(stage).__name__)


def _buffer(stage: Any) -> int:
    own = attributes_of(stage)
    if _called(stage) not in ("_shuffle", "detshuffle"):
        return 0
    args, named = own.get("args") or (), own.get("kw") or {}
    size = own.get("bufsize", args[0] if args else named.get("bufsize", 1000))
    return size if type(size) is int else 0


def _list_name(urls: Any) -> str:
    """The folder that they are in, or what their names begin with."""
    if type(urls) is not list or not urls or type(urls[0]) is not str or type(urls[-1]) is not str:
        return ""
    common = os.path.commonprefix([urls[0], urls[-1]])
    return common.rpartition("/")[0].rpartition("/")[2] or common or urls[0]


def _stage(code: str, known: dict[str, Any]) -> str:
    decodes = code == "_map" and type(known.get("f")).__name__ == "Decoder"
    return "decode" if decodes else code.strip("_")


def _in_tarfile(error: BaseException) -> bool:
    """It was the archive that could not be read, not a function of the user's that could not be called."""
    trace = error.__traceback__
    while trace is not None:
        if os.path.basename(trace.tb_frame.f_code.co_filename) == "tarfile.py":
            return True
        trace = trace.tb_next
    return False


def _holds_nothing(known: dict[str, Any]) -> bool:
    """Not a single file came out of the archive that is being read."""
    sample = known.get("sample")
    return type(sample) is not dict or sample.get("__url__") != known.get("url")


def _about(known: dict[str, Any], stage: str) -> dict[str, str]:
    """Shard and sample, from the function that asked the handler."""
    sample = known.get("sample")
    told = sample if type(sample) is dict else {}
    current = known.get("url") if stage in ("open", "read") else None  # the sample may be of the shard before
    path = current or told.get("__url__")
    found = {"path": path, "key": told.get("__key__")}
    return {name: value for name, value in found.items() if type(value) is str and value}


def _message(error: Exception) -> str:
    """Without what the library has added to its arguments: the stream and the address."""
    first = error.args[0] if len(error.args) > 1 else None
    return (redacted(first) if type(first) is str else message_of(error)).partition(" @ <")[0][:LONGEST]


def _name(handler: Any) -> str:
    return str(getattr(handler, "__name__", "") or type(handler).__name__)


here = Here()
