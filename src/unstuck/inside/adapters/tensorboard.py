"""TensorBoard's `SummaryWriter`, torch's and tensorboardX's: what its calls take, and scalars named like a loss.

Events go through a queue of ten to a thread that writes them: where the disk cannot keep up, the call waits.
"""

from __future__ import annotations

import functools
from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, after, replace, together
from ..format import Kind
from ..side_work.calls import timed
from ..side_work.loggers import set_up, told_by_logger

MODULES = ("torch.utils.tensorboard.writer", "tensorboardX.writer")
OWES = (Kind.METRIC, Kind.CALL, Kind.LOGGER)
OTHERS = ("flush", "close")


def install(module: ModuleType, guard: Guard) -> Undo:
    writer = module.SummaryWriter
    names = [name for name in vars(writer) if name.startswith("add_") or name in OTHERS]
    made = replace(writer, "__init__", lambda original: after(original, guard, _note))
    return together(made, *(_call(writer, name, guard) for name in names))


def _call(writer: type, name: str, guard: Guard) -> Undo:
    def make(original: Any) -> Any:
        inner = _add_scalar(original, guard) if name == "add_scalar" else original
        return timed(inner, "logger", f"SummaryWriter.{name}", guard)

    return replace(writer, name, make)


def _note(frame: FrameType, args: Any, _kwargs: Any, _result: Any) -> None:
    writer = args[0]
    folder = getattr(writer, "log_dir", None) or getattr(writer, "logdir", None)
    set_up("tensorboard", {"folder": str(folder or "")}, frame)


def _add_scalar(original: Any, guard: Guard) -> Any:
    @functools.wraps(original)
    def add_scalar(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        names = ("tag", "scalar_value", "global_step")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        guard.quietly(told_by_logger, *(given.get(name) for name in names))
        return result

    return add_scalar
