"""Optimizer steps, counted through torch's own global hooks; a step inside a step counts once."""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import Any

from ..describe import type_name
from ..format import H_STEP_AT, H_STEPS, ROLE_MAIN, Kind
from ..guard import Guard
from ..patching import Undo, together
from ..process import process
from ..recorder import Recorder, clock

MODULES = ("torch.optim.optimizer",)
OWES = (Kind.OPTIMIZER,)


class Steps:
    """How deep the running steps are nested, and where the last one was counted."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.depth = 0
        self.recorder: Recorder | None = None

    def count(self, optimizer: Any) -> None:
        process.optimizer_steps = steps = process.optimizer_steps + 1
        recorder = process.recorder
        if recorder is None or recorder is not self.recorder:
            recorder = self._meet(optimizer)
            if recorder is None:
                return
        words = recorder.words
        words[H_STEPS] = steps
        words[H_STEP_AT] = clock()

    def _meet(self, optimizer: Any) -> Recorder | None:
        """The first step that goes into this recording."""
        self.recorder = recorder = process.recording(ROLE_MAIN)
        if recorder is not None:
            recorder.note(Kind.OPTIMIZER, 0, clock(), 0, recorder.intern(type_name(optimizer) or ""))
        return recorder


def install(module: ModuleType, guard: Guard) -> Undo:
    steps = Steps(guard)

    def before(*_: Any) -> None:
        if steps.depth and not _is_nested(sys._getframe()):
            steps.depth = 0  # a step that raised calls no hook
        steps.depth += 1

    def after(optimizer: Any, *_: Any) -> None:
        steps.depth -= 1
        if steps.depth <= 0:
            steps.depth = 0
            try:
                steps.count(optimizer)
            except Exception as error:
                if guard.theirs(error):
                    raise

    # Dynamo would trace into the hooks of a compiled step.
    before._torchdynamo_disable = after._torchdynamo_disable = True  # type: ignore[attr-defined]
    handles = (
        module.register_optimizer_step_pre_hook(before),
        module.register_optimizer_step_post_hook(after),
    )
    return together(*(handle.remove for handle in handles))


def _is_nested(hook: FrameType) -> bool:
    """Whether the function that calls this hook, torch's wrapper of `step`, is running further up as well."""
    caller = hook.f_back
    frame = caller and caller.f_back
    while caller is not None and frame is not None:
        if frame.f_code is caller.f_code:
            return True
        frame = frame.f_back
    return False
