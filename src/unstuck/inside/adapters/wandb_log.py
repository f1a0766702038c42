"""Weights & Biases' `run.log`: how long it takes, scalars that are named like a loss, and values that get lost.

What is logged with `commit=False` and without a step stays in one open row: the next value of the same name takes its
place. That is counted here, because wandb says nothing.
"""

from __future__ import annotations

import functools
import sys
from _thread import get_ident
from types import FrameType, ModuleType
from typing import Any

from ..core.frames import user_line
from ..core.guard import Guard, Undo, replace
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import Kind
from ..side_work.calls import burst, timed
from ..side_work.loggers import set_up, told_by_logger

MODULES = ("wandb.sdk.wandb_run",)
OWES = (Kind.METRIC, Kind.CALL)
NAME = "wandb"


class Row:
    """The row that is not written yet: the names in it, and what has been counted."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.names: set[str] = set()
        self.uncommitted = self.lost = 0

    def begins_recording(self, recorder: Recorder) -> None:
        self.recorder, self.names, self.uncommitted, self.lost = recorder, set(), 0, 0

    def takes(self, data: dict[str, object], frame: FrameType | None, *, commit: bool) -> None:
        again = sum(name in self.names for name in data)
        if again and not self.lost:
            set_up(NAME, {"lost_at": user_line(frame)}, frame)
        self.lost += again
        self.uncommitted += not commit
        if commit:
            self.names.clear()
        else:
            self.names.update(data)

    def show(self, recorder: Recorder) -> None:
        key = recorder.intern(NAME)
        slot = recorder.board_slot(Kind.LOGGER, key)
        recorder.board(slot, Kind.LOGGER, key, clock(), self.uncommitted, self.lost)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.Run, "log", lambda original: timed(_log(original, guard), "logger", "wandb.log", guard))


def _log(original: Any, guard: Guard) -> Any:
    @functools.wraps(original)
    def log(self: Any, *args: Any, **kwargs: Any) -> Any:
        names = ("data", "step", "commit")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        # Before: wandb may take the dict apart.
        guard.quietly(_look, given.get("data"), given.get("step"), given.get("commit"), sys._getframe(1))
        return original(self, *args, **kwargs)

    return log


def _look(data: object, step: object, commit: object, frame: FrameType) -> None:
    if burst.code is not None and burst.thread == get_ident():
        burst.ends()
    if type(data) is not dict:
        return
    for name, value in list(data.items()):
        told_by_logger(name, value, step)
    recorder = process.recorder
    if recorder is None or (commit is not False and not row.names):  # nearly always
        return
    if recorder is not row.recorder:
        row.begins_recording(recorder)
    if step is not None:  # a new step writes the row that was open, an old one adds to it by the user's own will
        row.names.clear()
        return
    row.takes(data, frame, commit=commit is not False)
    row.show(recorder)


row = Row()
