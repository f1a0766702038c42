"""How long a sampler or dataset is, asked only where the answer is sure to be cheap and to change nothing.

A `__len__` of the user's may go through a whole dataset, draw random numbers or raise. It is called only if its code
does no more than read plain values of the object's own and count: `len(self.batches)`, `len(self.rows) // self.size`.
"""

from __future__ import annotations

import dis
import math
from types import CodeType, TracebackType
from typing import Any

from .exceptions import message_of
from .holdings import attributes_of

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


def length_of(value: object) -> tuple[int | None, str]:
    """The length; or None, and why there is none ("": it was not asked for)."""
    if not can_be_asked(value):
        return None, ""
    try:
        return len(value), ""  # type: ignore[arg-type]
    except Exception as error:
        if not _by_counting(error.__traceback__):
            raise  # a signal handler's, for example
        return None, f"{type(error).__name__}: {message_of(error)}"[:200]


def can_be_asked(value: object, depth: int = 0) -> bool:
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
    return not hasattr(type(value), "__len__") or can_be_asked(value, depth)


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
        return type(held) in PLAIN or can_be_asked(held, depth)
    meant = _globals_of(value).get(name, MISSING)
    return name in COUNTING and (meant is MISSING or any(meant is one for one in HARMLESS))


def _globals_of(value: object) -> dict[str, Any]:
    return getattr(getattr(type(value), "__len__", None), "__globals__", {})


def _by_counting(trace: TracebackType | None) -> bool:
    """Whether `__len__` itself raised it, or what it calls in torch, or the lack of one."""
    name = ""
    while trace is not None:
        name, trace = trace.tb_frame.f_code.co_name, trace.tb_next
    return name in ("__len__", "num_samples", "length_of", "<genexpr>", "<listcomp>")
