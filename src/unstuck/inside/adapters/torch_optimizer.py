"""Optimizer steps, counted through torch's own global hooks; a step inside a step counts once."""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import Any

from ..format import ROLE_MAIN, Kind
from ..guard import Guard
from ..patching import Undo, together
from ..process import process
from ..recorder import Recorder, clock

MODULES = ("torch.optim.optimizer",)
OWES = (Kind.OPTIMIZER,)


class Steps:
    """Open steps of this process, by start time."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.started = 0
        self.depth = 0
        self.slot = 0
        self.recorder: Recorder | None = None

    def before(self, *_: Any) -> None:
        try:
            if self.depth and not _is_nested(sys._getframe(1)):
                self.depth = 0  # a step that raised calls no hook
            self.depth += 1
            if self.depth == 1:
                self.started = clock()
        except Exception as error:
            if self.guard.theirs(error):
                raise

    def after(self, *_: Any) -> None:
        try:
            self.depth -= 1
            if self.depth <= 0:
                self.depth = 0
                self._count()
        except Exception as error:
            if self.guard.theirs(error):
                raise

    def _count(self) -> None:
        now = clock()
        process.optimizer_steps += 1
        recorder = process.recorder or process.recording(ROLE_MAIN)
        if recorder is None:
            return
        if recorder is not self.recorder:
            process.recording(ROLE_MAIN)
            self.slot = recorder.total_slot(Kind.OPTIMIZER)
            self.recorder = recorder
        recorder.total(self.slot, now - self.started)
        recorder.cost(clock() - now)


def _is_nested(hook: FrameType) -> bool:
    """Whether the function that calls this hook, torch's wrapper of `step`, is running further up as well."""
    caller = hook.f_back
    frame = caller and caller.f_back
    while caller is not None and frame is not None:
        if frame.f_code is caller.f_code:
            return True
        frame = frame.f_back
    return False


def install(module: ModuleType, guard: Guard) -> Undo:
    steps = Steps(guard)

    def before(*_: Any) -> None:
        steps.before()

    def after(*_: Any) -> None:
        steps.after()

    # Dynamo would trace into the hooks of a compiled step.
    before._torchdynamo_disable = after._torchdynamo_disable = True  # type: ignore[attr-defined]
    handles = (
        module.register_optimizer_step_pre_hook(before),
        module.register_optimizer_step_post_hook(after),
    )
    return together(*(handle.remove for handle in handles))
