"""Types and shapes: of a batch, and of samples that could not be collated, one by one."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from .variables import variables

SAMPLES = 64
FIELDS = 8
LENGTH = 160


def of_batch(trace: TracebackType | None) -> list[str]:
    """torch's fetcher holds the list of samples in a local of its own."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "fetch" and code.co_filename.endswith("_utils/fetch.py"):
            data = variables(trace.tb_frame).get("data")
            return [_shape(one)[:LENGTH] for one in data[:SAMPLES]] if type(data) is list else []
        trace = trace.tb_next
    return []


def look_of(data: Any) -> dict[str, str]:
    """What a batch looks like, and where its tensors are."""
    return {"shapes": _shape(data)[:LENGTH], "device": _device(data)}


def _device(value: Any, depth: int = 0) -> str:
    """Of the first tensor."""
    if type(value).__module__ == "torch" and hasattr(type(value), "device"):
        return str(value.device)
    inner = list(dict.values(value)) if issubclass(type(value), dict) else value
    found = (_device(one, depth + 1) for one in inner[:FIELDS]) if depth < 3 and type(inner) in (list, tuple) else ()
    return next((one for one in found if one), "")


def _shape(value: Any, depth: int = 0) -> str:
    if type(value).__module__ in ("torch", "numpy") and hasattr(type(value), "shape"):
        kind = str(value.dtype).rpartition(".")[2]
        return f"{kind}[{', '.join(str(one) for one in value.shape)}]"
    if depth < 3 and issubclass(type(value), dict):
        inner = [f"{name}: {_shape(one, depth + 1)}" for name, one in list(dict.items(value))[:FIELDS]]
        return f"{{{', '.join(inner)}}}"
    if depth < 3 and type(value) in (list, tuple):
        if len(value) > FIELDS:
            return f"{type(value).__name__} of {len(value)}"
        inner = [_shape(one, depth + 1) for one in value]
        return f"({', '.join(inner)})" if type(value) is tuple else f"[{', '.join(inner)}]"
    if type(value) in (str, bytes):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__
