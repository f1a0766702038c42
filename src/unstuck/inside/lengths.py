"""How long a sampler or dataset is, asked only where the answer is sure to be cheap and to change nothing.

A `__len__` of the user's may go through a whole dataset, draw random numbers or raise. It is called only if its code
does no more than read plain values of the object's own and count them: `len(self.batches)`, `len(self.data) // self.size`.
"""

from __future__ import annotations

import builtins
from types import CodeType, TracebackType
from typing import Any

from .holdings import attributes_of

PLAIN = (int, float, bool, str, bytes, type(None), list, tuple, dict, set, frozenset, range)
COUNTED = (list, tuple, dict, set, frozenset, range, str, bytes)
COUNTING = ("len", "sum", "min", "max", "int", "round", "math", "ceil", "floor", "keys", "values", "items", "range")
# Whose own samplers and datasets count without loading anything: as long as what they hold does so, too.
LIBRARIES = ("torch.utils.data.", "accelerate.data_loader", "torchdata.", "torchvision.datasets.")
ARRAYS = (("torch", "Tensor"), ("numpy", "ndarray"), ("datasets.arrow_dataset", "Dataset"))
HELD = ("data_source", "sampler", "batch_sampler", "dataset", "datasets", "indices", "tensors")
DEEP = 6


def length_of(value: object) -> tuple[int | None, str]:
    """The length, or None and why there is none: "" if it was not asked for."""
    if not can_be_asked(value):
        return None, ""
    try:
        return len(value), ""  # type: ignore[arg-type]
    except Exception as error:
        if not _by_counting(error.__traceback__):
            raise  # a signal handler's, for example
        return None, f"{type(error).__name__}: {error}"[:200]


def can_be_asked(value: object, depth: int = 0) -> bool:
    kind = type(value)
    if kind in COUNTED or (kind.__module__, kind.__name__) in ARRAYS:
        return True
    if depth > DEEP:
        return False
    if kind.__module__.startswith(LIBRARIES):
        own = attributes_of(value)
        return all(_held_can(own[name], depth) for name in HELD if name in own)
    counts = getattr(kind, "__len__", None)
    code = getattr(counts, "__code__", None)
    return code is not None and _only_counts(code, value, depth)


def _held_can(value: object, depth: int) -> bool:
    """None too: that it has no length is what `len` says."""
    if type(value) in (list, tuple):
        return all(_held_can(one, depth + 1) for one in value[:DEEP])  # type: ignore[index]
    return value is None or can_be_asked(value, depth + 1) or not hasattr(type(value), "__len__")


def _only_counts(code: CodeType, value: object, depth: int) -> bool:
    """All that its code names is there, is plain or can be counted itself, and is no method of the user's."""
    own = attributes_of(value)
    for name in code.co_names:
        if name in own:
            if type(own[name]) not in PLAIN and not can_be_asked(own[name], depth + 1):
                return False
        elif name not in COUNTING or (name in _globals_of(value) and hasattr(builtins, name)):
            return False
    return all(_only_counts(one, value, depth) for one in code.co_consts if isinstance(one, CodeType))


def _globals_of(value: object) -> dict[str, Any]:
    found: dict[str, Any] = getattr(type(value).__len__, "__globals__", {})  # type: ignore[attr-defined]
    return found


def _by_counting(trace: TracebackType | None) -> bool:
    """Whether it was raised by the innermost `__len__` itself, or by what torch's own calls for it."""
    name = ""
    while trace is not None:
        name, trace = trace.tb_frame.f_code.co_name, trace.tb_next
    return name in ("__len__", "num_samples", "length_of", "<genexpr>", "<listcomp>")
