"""`torch.distributed.checkpoint`: checkpoints that all ranks save or load together, and wait for each other in.

`async_save` calls `save` in a thread of torch's own: the one is how long the training was held up, the other how long
writing took.
"""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace_everywhere, together
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

        def call(*args: Any, **kwargs: Any) -> Any:
            span = guard.result(_begin, name, sys._getframe(1), kwargs)
            try:
                result = recorded(*args, **kwargs)
            except Exception as error:
                if span is not None:
                    guard.quietly(span.fails)
                clean(error)
                raise
            if span is not None:
                guard.quietly(span.ends)
            return result

        return call

    return make


def _held(original: Any, guard: Guard) -> Any:
    def async_save(*args: Any, **kwargs: Any) -> Any:
        start = clock()
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        frame = sys._getframe(1)
        guard.quietly(held, _target(frame, *args, **kwargs), start, SAVED_TOGETHER, frame)
        return result

    return async_save


def _begin(name: str, frame: FrameType, kwargs: dict[str, Any]) -> Span | None:
    """Where ranks do it together. In the background nobody waits in it."""
    distributed: Any = sys.modules.get("torch.distributed.distributed_c10d")
    alone = kwargs.get("no_dist") is True or distributed is None or not distributed.is_initialized()
    return None if alone or is_part(frame) else begin_span(NAMES[name], frame)


def _target(frame: FrameType, *args: Any, **kwargs: Any) -> object:  # noqa: ARG001  (what `saves` hands over)
    """The checkpoint's name, or where its writer writes to."""
    target = kwargs.get("checkpoint_id")
    writer = kwargs.get("storage_writer") or (args[1] if len(args) > 1 else None)
    return target if target is not None else attributes_of(writer).get("path", writer)
