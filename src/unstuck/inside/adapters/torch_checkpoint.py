"""`torch.distributed.checkpoint`: checkpoints that all ranks save or load together, and wait for each other in.

`async_save` calls `save` in a thread of torch's own: the one is how long the training was held up, the other how long
writing took.
"""

from __future__ import annotations

import functools
import sys
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, around, replace_everywhere, together
from ..core.objects import attributes_of
from ..core.recorder import clock
from ..failures.collectives import Span, begin_span
from ..format import SAVED_TOGETHER, Kind
from ..side_work.saves import held, saves
from .torch_save import is_part

MODULES = ("torch.distributed.checkpoint.state_dict_saver", "torch.distributed.checkpoint.state_dict_loader")
OWES = (Kind.SAVE, Kind.SPAN)
NAMES = {"save": "checkpoint save", "load": "checkpoint load"}


def install(module: ModuleType, guard: Guard) -> Undo:
    undos = [replace_everywhere(module, name, _make(name, guard)) for name in NAMES if name in vars(module)]
    if "async_save" in vars(module):
        undos.append(replace_everywhere(module, "async_save", lambda original: _held(original, guard)))
    return together(*undos)


def _make(name: str, guard: Guard) -> Any:
    def make(original: Any) -> Any:
        recorded = saves(original, _target, SAVED_TOGETHER, guard) if name == "save" else original
        return around(recorded, guard, functools.partial(_begin, name), end=Span.ends, fail=Span.fails)

    return make


def _held(original: Any, guard: Guard) -> Any:
    def begin(frame: FrameType, _args: Any, _kwargs: Any) -> tuple[FrameType, int]:
        return frame, clock()

    def measure(begun: tuple[FrameType, int], args: Any, kwargs: Any, _result: Any) -> None:
        frame, start = begun
        held(_target(frame, *args, **kwargs), start, SAVED_TOGETHER, frame)

    return around(original, guard, begin, measure=measure)


def _begin(name: str, frame: FrameType, _args: Any, kwargs: dict[str, Any]) -> Span | None:
    """Where ranks do it together. In the background nobody waits in it."""
    distributed: Any = sys.modules.get("torch.distributed.distributed_c10d")
    alone = kwargs.get("no_dist") is True or distributed is None or not distributed.is_initialized()
    return None if alone or is_part(frame) else begin_span(NAMES[name], frame)


def _target(frame: FrameType, *args: Any, **kwargs: Any) -> object:  # noqa: ARG001  (what `saves` hands over)
    """The checkpoint's name, or where its writer writes to."""
    target = kwargs.get("checkpoint_id")
    writer = kwargs.get("storage_writer") or (args[1] if len(args) > 1 else None)
    return target if target is not None else attributes_of(writer).get("path", writer)
