"""Optimizer steps, counted through torch's own global hooks; a step inside a step counts once.

After some of them autograd graphs are counted that outlive their step, and only while memory grows.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from types import FrameType, ModuleType
from typing import Any

from ..core import garbage
from ..core.frames import user_line
from ..core.guard import Guard, Undo, together
from ..core.objects import attributes_of
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import H_STEP_AT, H_STEPS, ROLE_MAIN, Kind
from ..loading.describe import type_name

MODULES = ("torch.optim.optimizer",)
OWES = (Kind.OPTIMIZER, Kind.GRAPH)

FIRST = 32  # steps: what every training allocates at first is allocated
GROWN = 8 << 20  # bytes of memory since then, below which nothing is counted
AT_ONCE = 3  # times: a twentieth of a second each, in a run whose memory grows; after that,
SELDOM = 100  # times as long as it took must have gone by before it is counted again
MANY = 20_000  # nodes
SLOW = 200_000_000  # nanoseconds: a heap on which counting takes that long is counted once more at most
PAGE = os.sysconf("SC_PAGE_SIZE")


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


class Census:
    """Of this process. It is taken at steps 64, 128, 256 and so on, right after an optimizer step."""

    __slots__ = ("before", "counted", "due", "left")

    def __init__(self) -> None:
        self.before = self.counted = self.due = 0
        self.left = 12

    def step(self, recorder: Recorder, steps: int, frame: FrameType) -> None:
        if steps == FIRST or not self.before:
            self.before = _anonymous()
        elif self.left and clock() > self.due and _anonymous() - self.before > GROWN:
            begun = clock()
            self.left -= 1
            self.counted += 1
            nodes, tensors = _count_nodes()
            spent = clock() - begun
            self.due = clock() + SELDOM * spent if self.counted >= AT_ONCE else 0
            if spent > SLOW:
                self.left = min(self.left, 1)
            told = {"tensors": tensors, "limited": nodes >= MANY, "where": user_line(frame)}
            recorder.note(Kind.GRAPH, 0, begun, spent, steps, nodes, recorder.intern(json.dumps(told)))
            recorder.cost(spent)


def _anonymous() -> int:
    """Bytes of memory that are neither files nor shared."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            fields = statm.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * PAGE


def _count_nodes() -> tuple[int, int]:
    """Nodes that can be reached from tensors that live, and how many of these there are."""
    torch = sys.modules.get("torch")
    if torch is None:
        return 0, 0
    kind = torch.Tensor
    roots = [one.grad_fn for one in gc.get_objects() if type(one) is kind and one.grad_fn is not None]
    waiting = list(roots)
    seen: dict[int, object] = {}
    while waiting and len(seen) < MANY:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node  # kept, so that no other gets its address
            waiting += [inner for inner, _ in node.next_functions if inner is not None]
    return len(seen), len(roots)


census = Census()
