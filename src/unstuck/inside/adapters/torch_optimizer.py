"""Optimizer steps, counted through torch's own global hooks; a step inside a step counts once."""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import Any

from .. import garbage
from ..describe import type_name
from ..format import H_STEP_AT, H_STEPS, ROLE_MAIN, Kind
from ..graphs import census
from ..guard import Guard
from ..holdings import attributes_of
from ..patching import Undo, together
from ..process import process
from ..recorder import Recorder, clock

MODULES = ("torch.optim.optimizer",)
OWES = (Kind.OPTIMIZER, Kind.GRAPH)


def install(module: ModuleType, guard: Guard) -> Undo:
    depth = 0  # of steps inside steps
    known: Recorder | None = None

    def before(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
        nonlocal depth
        if depth and not _is_nested(sys._getframe()):
            depth = 0  # a step that raised calls no hook
        depth += 1

    def after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        nonlocal depth, known
        depth -= 1
        if depth > 0:
            return
        depth = 0
        try:
            process.optimizer_steps = steps = process.optimizer_steps + 1
            recorder = process.recorder
            if recorder is None or recorder is not known:
                known = recorder = meet(optimizer)
            if recorder is not None:
                words = recorder.words
                words[H_STEPS] = steps
                words[H_STEP_AT] = clock()
                if not steps & 31 and not steps & (steps - 1):
                    census.step(recorder, steps, sys._getframe(1))
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


def meet(optimizer: Any) -> Recorder | None:
    """The first step that goes into this process's recording."""
    recorder = process.recording(ROLE_MAIN)
    if recorder is not None:
        garbage.begins(recorder)
        text = recorder.intern(type_name(optimizer) or "")
        recorder.note(Kind.OPTIMIZER, 0, clock(), 0, text, recorder.intern(_device(optimizer)))
    return recorder


def _device(optimizer: Any) -> str:
    """Where the first of its parameters is."""
    groups = attributes_of(optimizer).get("param_groups")
    first = groups[0].get("params") if type(groups) is list and groups and type(groups[0]) is dict else None
    return str(first[0].device) if type(first) is list and first and hasattr(type(first[0]), "device") else ""


def _is_nested(hook: FrameType) -> bool:
    """Whether the function that calls this hook, torch's wrapper of `step`, is running further up as well."""
    caller = hook.f_back
    frame = caller and caller.f_back
    while caller is not None and frame is not None:
        if frame.f_code is caller.f_code:
            return True
        frame = frame.f_back
    return False
