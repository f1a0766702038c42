"""Describes a DataLoader and its dataset from what lies open in their attributes, running none of the user's code."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from ..core.frames import user_line, variables
from ..core.guard import is_library
from ..core.objects import attributes_of, files_of, held
from ..redaction import HIDDEN, redacted, secret_name

PARAMETERS = (
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "drop_last",
    "pin_memory",
    "persistent_workers",
    "timeout",
    "in_order",
)
ATTRIBUTES = 16
CONTAINERS = (list, tuple, dict, set)
ITERABLE = 1  # torch's _DatasetKind.Iterable


def describe_loader(loader: Any) -> dict[str, Any]:
    own = attributes_of(loader)
    known: dict[str, Any] = {name: own.get(name) for name in PARAMETERS}
    sampler, batch_sampler = own.get("sampler"), own.get("batch_sampler")
    known.update(
        type=type_name(loader),
        sampler=type_name(sampler),
        batch_sampler=type_name(batch_sampler),
        shuffle=type(sampler).__name__ == "RandomSampler",
        collate_fn=_name(own.get("collate_fn")),
        worker_init_fn=_name(own.get("worker_init_fn")),
        context=start_method(own),
        sampler_at=_code(_outermost(sampler, batch_sampler), ("__iter__",)),
        sampler_holds=_holds(own.get("dataset"), sampler, batch_sampler),
        created=user_line(sys._getframe(1)),
        made_by=_maker(sys._getframe(1)),
        **_describe_dataset(own.get("dataset"), own.get("_dataset_kind", 0)),
    )
    return known


def _outermost(sampler: Any, batch_sampler: Any) -> Any:
    """The sampler that is somebody's own, rather than torch's around it."""
    own = batch_sampler is not None and not type(batch_sampler).__module__.startswith("torch.utils.data")
    return batch_sampler if own else sampler


def _holds(dataset: Any, *samplers: Any) -> bool:
    """A sampler that has the dataset could read it; torch's own have it as well, and only ask for its length."""
    own = [one for one in samplers if one is not None and not type(one).__module__.startswith("torch.utils.data")]
    return dataset is not None and any(value is dataset for one in own for _, value, _ in held(one))


def describe_iterator(iterator: Any) -> dict[str, Any]:
    """The same as far as an iterator knows it: the loader itself is out of reach."""
    own = attributes_of(iterator)
    known: dict[str, Any] = {name: own.get("_" + name) for name in PARAMETERS}
    known.update(
        type=type_name(iterator),
        sampler=type_name(own.get("_index_sampler")),
        collate_fn=_name(own.get("_collate_fn")),
        created=None,
        **_describe_dataset(own.get("_dataset"), own.get("_dataset_kind", 0)),
    )
    return known


def _describe_dataset(dataset: Any, kind: int) -> dict[str, Any]:
    inner = dataset
    for _ in range(4):  # torch's Subset and the like hold the user's dataset
        if not type(inner).__module__.startswith("torch.utils.data") or "dataset" not in attributes_of(inner):
            break
        inner = attributes_of(inner)["dataset"]
    iterable = kind == ITERABLE
    return {
        "dataset": type_name(dataset),
        "dataset_inner": type_name(inner),
        "iterable": iterable,
        "reads_at": _code(inner, ("__iter__",) if iterable else ("__getitem__", "__getitems__")),
        "attributes": _attributes(inner),
        "containers": _containers(inner),
        "files": files_of(inner),
    }


def _maker(frame: FrameType | None) -> str:
    """Who makes it for the user, and is told how."""
    for _ in range(8):
        if frame is None or not is_library(frame.f_code.co_filename):
            break
        owner = type(variables(frame).get("self")) if frame.f_code.co_name == "__init__" else None
        if owner is not None and owner.__name__ == "WebLoader" and owner.__module__.startswith("webdataset"):
            return "wds.WebLoader"
        frame = frame.f_back
    return ""


def _attributes(dataset: Any) -> dict[str, Any]:
    """Plain values as they are, containers by their size, everything else by its type."""
    found: dict[str, Any] = {}
    own = [one for one in attributes_of(dataset).items() if not one[0].startswith("_unstuck")]
    for name, value in own[:ATTRIBUTES]:
        if value is None or type(value) is bool:
            found[name] = value
        elif type(value) in (int, float, str) and secret_name(name):
            found[name] = HIDDEN
        elif type(value) in (int, float):
            found[name] = value
        elif type(value) is str:
            found[name] = redacted(value)[:200]
        elif type(value) in CONTAINERS:
            found[name] = f"{type(value).__name__} of {len(value)}"
        else:
            found[name] = type(value).__name__
    return found


def _containers(dataset: Any) -> dict[str, int]:
    """How many items each has, the largest first."""
    sizes = {name: len(value) for name, value, _ in held(dataset) if type(value) in CONTAINERS and len(value) > 1}
    return dict(sorted(sizes.items(), key=lambda one: -one[1])[:ATTRIBUTES])


def type_name(value: object) -> str | None:
    """Also what JSON shows of anything it cannot."""
    return None if value is None else f"{type(value).__module__}.{type(value).__qualname__}"


def _name(value: object) -> str | None:
    if value is None:
        return None
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__name__)}"


def start_method(own: dict[str, Any]) -> str | None:
    context = own.get("_DataLoader__multiprocessing_context")
    if context is None:
        multiprocessing = sys.modules.get("multiprocessing")
        if multiprocessing is None:
            return None
        # The first of all is the default, which is chosen for good only when the first process starts.
        return str(multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0])
    return getattr(context, "_name", None)


def _code(dataset: object, names: tuple[str, ...]) -> dict[str, Any] | None:
    for name in names:
        method = getattr(type(dataset), name, None)
        code = getattr(getattr(method, "__wrapped__", method), "__code__", None)  # it may be wrapped, by us for one
        if code is not None:
            function = getattr(code, "co_qualname", code.co_name)
            return {"file": code.co_filename, "line": code.co_firstlineno, "function": function}
    return None
