"""What accelerate makes of a DataLoader, told from what lies open in both: no code of the user's is run for it.

Lengths are asked for only where the answer is sure to be cheap and to change nothing. A `__len__` of the user's may go
through a whole dataset, draw random numbers or raise. It is called only if its code does no more than read plain values
of the object's own and count: `len(self.batches)`, `len(self.rows) // self.size`.
"""

from __future__ import annotations

import dis
import json
import math
import sys
from types import CodeType, FrameType, TracebackType
from typing import Any

from ..core.frames import user_line
from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..failures.exceptions import message_of
from ..format import ROLE_MAIN, Kind
from ..loading.describe import ITERABLE, type_name
from ..loading.loaders import entry_of

SHARDS = ("BatchSamplerShard", "SkipBatchSampler")  # accelerate's own, wrapped around the batch sampler
DEEP_SHARDS = 8

COUNTED = (list, tuple, dict, set, frozenset, range, str, bytes)
PLAIN = (*COUNTED, int, float, bool, type(None))
COUNTING = ("len", "sum", "min", "max", "int", "round", "range", "keys", "values", "items", "math", "ceil", "floor")
HARMLESS = (math, math.ceil, math.floor)  # what these names may stand for, if not for a builtin
# Whose own samplers and datasets count without loading anything, as long as what they hold does so, too.
LIBRARIES = ("torch.utils.data.", "accelerate.data_loader", "torchdata.", "torchvision.datasets.")
ARRAYS = (("torch", "Tensor"), ("numpy", "ndarray"), ("datasets.arrow_dataset", "Dataset"))
HELD = ("data_source", "sampler", "batch_sampler", "dataset", "datasets", "indices", "tensors")
CHANGING = ("STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_SUBSCR")
DEEP = 6
MISSING = object()


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
            entry.note_length(_length_of(_index_sampler(base))[0] or 0, after["dataset_length"] or -1)
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
        "dataset_length": _length_of(_innermost(own.get("dataset")))[0],
        "batches": None if iterable or inner is None else _length_of(inner)[0],
        "even_batches": attributes_of(shards[0]).get("even_batches") if shards else None,
    }


def _unwrap(sampler: Any) -> tuple[list[Any], Any]:
    """accelerate's own wrappers, outermost first, and what they are wrapped around."""
    shards: list[Any] = []
    while type(sampler).__name__ in SHARDS and len(shards) < DEEP_SHARDS:
        shards.append(sampler)
        sampler = attributes_of(sampler).get("batch_sampler")
    return shards, sampler


def _innermost(dataset: Any) -> Any:
    """accelerate's shard of a stream holds the user's dataset."""
    return attributes_of(dataset).get("dataset") if type(dataset).__name__ == "IterableDatasetShard" else dataset


def _length(loader: Any) -> tuple[int | None, str]:
    """What `len(loader)` says of one over a map-style dataset. A stream would be told that somebody has asked."""
    length, failed = _length_of(_index_sampler(base_of(loader)))
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


def _length_of(value: object) -> tuple[int | None, str]:
    """The length; or None, and why there is none ("": it was not asked for)."""
    if not _can_be_asked(value):
        return None, ""
    try:
        return len(value), ""  # type: ignore[arg-type]
    except Exception as error:
        if not _by_counting(error.__traceback__):
            raise  # a signal handler's, for example
        return None, f"{type(error).__name__}: {message_of(error)}"[:200]


def _can_be_asked(value: object, depth: int = 0) -> bool:
    kind = type(value)
    if kind in COUNTED or (kind.__module__, kind.__name__) in ARRAYS:
        return True
    if depth > DEEP:
        return False
    if kind.__module__.startswith(LIBRARIES):
        own = attributes_of(value)
        return all(_holds_well(own[name], depth + 1) for name in HELD if name in own)
    counts = getattr(kind, "__len__", None)
    code = getattr(counts, "__code__", None)
    plain = kind.__getattribute__ is object.__getattribute__
    return plain and code is not None and not code.co_freevars and _only_counts(code, value, depth)


def _holds_well(value: object, depth: int) -> bool:
    """What has no length at all is fine as well: nothing of the user's is called to find that out."""
    if type(value) in (list, tuple):
        return all(_holds_well(one, depth) for one in value[:DEEP])  # type: ignore[index]
    return not hasattr(type(value), "__len__") or _can_be_asked(value, depth)


def _only_counts(code: CodeType, value: object, depth: int) -> bool:
    """Every name in it stands for a plain value, for something that can be counted in its turn, or for counting."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    names = all(_is_harmless(name, value, depth + 1) for name in code.co_names)
    names = names and not any(one.opname in CHANGING for one in dis.get_instructions(code))
    return names and all(_only_counts(one, value, depth) for one in inner)


def _is_harmless(name: str, value: object, depth: int) -> bool:
    shared = next((vars(one)[name] for one in type(value).__mro__ if name in vars(one)), MISSING)
    if shared is not MISSING and type(shared) not in PLAIN:
        return False  # a property, or a method of the user's
    held = attributes_of(value).get(name, shared)
    if held is not MISSING:
        return type(held) in PLAIN or _can_be_asked(held, depth)
    meant = _globals_of(value).get(name, MISSING)
    return name in COUNTING and (meant is MISSING or any(meant is one for one in HARMLESS))


def _globals_of(value: object) -> dict[str, Any]:
    return getattr(getattr(type(value), "__len__", None), "__globals__", {})


def _by_counting(trace: TracebackType | None) -> bool:
    """Whether `__len__` itself raised it, or what it calls in torch, or the lack of one."""
    name = ""
    while trace is not None:
        name, trace = trace.tb_frame.f_code.co_name, trace.tb_next
    return name in ("__len__", "num_samples", "_length_of", "<genexpr>", "<listcomp>")
