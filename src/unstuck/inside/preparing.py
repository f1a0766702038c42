"""What accelerate makes of a DataLoader, told from what lies open in both: no code of the user's is run for it."""

from __future__ import annotations

import json
import sys
from types import FrameType
from typing import Any

from .describe import ITERABLE, type_name, user_line
from .format import ROLE_MAIN, Kind
from .holdings import attributes_of
from .lengths import length_of
from .loaders import entry_of
from .process import process
from .recorder import Recorder, clock

SHARDS = ("BatchSamplerShard", "SkipBatchSampler")  # accelerate's own, wrapped around the batch sampler
DEEP = 8


class Preparing:
    """One loader on its way through `prepare`."""

    __slots__ = ("facts", "recorder", "start")

    def __init__(self, recorder: Recorder, loader: Any, given: dict[str, Any], frame: FrameType) -> None:
        self.start = clock()
        self.recorder = recorder
        self.facts: dict[str, Any] = {
            **_settings(given),
            "where": user_line(frame),
            "before": describe(loader),
        }
        self._note(0)
        recorder.cost(clock() - self.start)

    def done(self, prepared: Any) -> None:
        recorder = self.recorder
        if recorder is not process.recorder:  # a child was forked in between
            return
        begun = clock()
        after = self.facts["after"] = describe(prepared)
        base = base_of(prepared)
        entry = entry_of(base) if "dataset" in attributes_of(base) else None  # on a TPU it is something else
        if entry is not None and after["length"] is not None and not after["iterable"]:
            entry.note_length(length_of(_index_sampler(base))[0] or 0, after["dataset_length"] or -1)
        self._note(entry.number if entry is not None else 0)
        recorder.cost(clock() - begun)

    def _note(self, number: int) -> None:
        text = self.recorder.intern(json.dumps(self.facts, ensure_ascii=False, default=type_name))
        self.recorder.note(Kind.PREPARED, 0, self.start, clock() - self.start, text, number)


def begin(loader: Any, given: dict[str, Any], frame: FrameType) -> Preparing | None:
    """None when nothing records."""
    recorder = process.recording(ROLE_MAIN)
    return None if recorder is None else Preparing(recorder, loader, given, frame)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    state, device = _state(), given.get("device")
    return {
        "processes": _number(given.get("num_processes")) or _number(state.get("num_processes")),
        "index": _number(given.get("process_index")) or _number(state.get("process_index")) or 0,
        "device": None if device is None else str(device),
        "even_batches": given.get("even_batches"),
        "split_batches": bool(given.get("split_batches")),
        "dispatch_batches": given.get("dispatch_batches"),
    }


def _state() -> dict[str, Any]:
    """What accelerate knows of this process, where a caller of its functions leaves it to that."""
    kind = getattr(sys.modules.get("accelerate.state"), "PartialState", None)
    known = getattr(kind, "_shared_state", None)
    return known if isinstance(known, dict) else {}


def base_of(loader: Any) -> Any:
    """The DataLoader that loads: newer versions of accelerate hold one, older ones are one."""
    return attributes_of(loader).get("base_dataloader", loader)


def describe(loader: Any) -> dict[str, Any]:
    own = attributes_of(base_of(loader))
    iterable = own.get("_dataset_kind") == ITERABLE
    outer = own.get("sampler") if _is_batch_sampler(own.get("sampler")) else own.get("batch_sampler")
    shards, inner = _unwrap(outer)
    length, failed = (None, "") if iterable else _length(loader)
    return {
        "type": type_name(loader),
        "length": length,
        "failed": failed,
        "batch_size": _number(own.get("batch_size")) or _number(attributes_of(inner).get("batch_size")),
        "batch_sampler": None if iterable else type_name(inner),
        "shards": [type_name(one) for one in shards],
        "sampler": type_name(own.get("sampler") if inner is None else attributes_of(inner).get("sampler")),
        "drop_last": _drops_last(own, inner),
        "iterable": iterable,
        "dataset_length": length_of(_innermost(own.get("dataset")))[0],
        "batches": None if iterable or inner is None else length_of(inner)[0],
        "even_batches": attributes_of(shards[0]).get("even_batches") if shards else None,
    }


def _unwrap(sampler: Any) -> tuple[list[Any], Any]:
    """accelerate's own wrappers, outermost first, and what they are wrapped around."""
    shards: list[Any] = []
    while type(sampler).__name__ in SHARDS and len(shards) < DEEP:
        shards.append(sampler)
        sampler = attributes_of(sampler).get("batch_sampler")
    return shards, sampler


def _innermost(dataset: Any) -> Any:
    """accelerate's shard of a stream holds the user's dataset."""
    return attributes_of(dataset).get("dataset") if type(dataset).__name__ == "IterableDatasetShard" else dataset


def _length(loader: Any) -> tuple[int | None, str]:
    """What `len(loader)` says of one over a map-style dataset. A stream would be told that somebody has asked."""
    length, failed = length_of(_index_sampler(base_of(loader)))
    if length is None or type(loader).__name__ != "DataLoaderDispatcher":
        return length, failed
    own = attributes_of(loader)
    if own.get("split_batches"):
        return length, ""
    count = attributes_of(own.get("state")).get("num_processes") or 1
    return (length if own.get("_drop_last") else length + count - 1) // count, ""


def _index_sampler(loader: Any) -> Any:
    own = attributes_of(loader)
    return own.get("sampler") if own.get("batch_sampler") is None else own.get("batch_sampler")


def _is_batch_sampler(sampler: Any) -> bool:
    """A batch sampler given as `sampler`, with batch_size=None: accelerate takes it for what it is."""
    return any(one.__name__ == "BatchSampler" for one in type(sampler).__mro__)


def _drops_last(own: dict[str, Any], inner: Any) -> bool:
    return bool(own.get("drop_last")) or attributes_of(inner).get("drop_last") is True


def _number(value: object) -> int | None:
    return value if type(value) is int else None
