"""Datasets that batch by buckets (ai-toolkit, sd-scripts, their forks): when these are set up, step by step.

Nobody imports those projects by a name of their own, and forks rename their classes. What they have in common is that
they are torch datasets: a class is looked at when it is written, and its methods that set buckets up are wrapped.
"""

from __future__ import annotations

from functools import partial
from types import FrameType, FunctionType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, after, clean, replace
from ..core.recorder import clock
from ..format import Kind
from ..loading import buckets

MODULES = ("torch.utils.data.dataset",)
OWES = (Kind.BUCKETS,)
CALLS = 64  # of one method that are looked at: set-up is rare, and what is frequent is something else


def install(module: ModuleType, guard: Guard) -> Undo:
    dataset = module.Dataset
    made = "__init_subclass__" not in vars(dataset)
    if made:
        dataset.__init_subclass__ = classmethod(_inherited(dataset))
    undone: list[Undo] = []

    def written(_frame: FrameType, args: Any, _kwargs: Any, _result: Any) -> None:
        _dress(args[0], guard, undone)

    first = replace(dataset, "__init_subclass__", lambda original: after(original, guard, written))

    def undo() -> None:
        first()
        if made:
            del dataset.__init_subclass__
        for one in undone:
            one()

    return undo


def _inherited(dataset: Any) -> Any:
    """What a class without a method of its own does."""

    def __init_subclass__(cls: type[Any], /, **kwargs: Any) -> None:
        super(dataset, cls).__init_subclass__(**kwargs)

    return __init_subclass__


def _dress(cls: Any, guard: Guard, undone: list[Undo]) -> None:
    """Wrap the methods that set buckets up, in whichever of its classes each is written."""
    owners = [one for one in cls.__mro__ if not one.__module__.startswith(("torch.", "builtins", "typing"))]
    steps = [(owner, name) for owner in owners for name in list(vars(owner)) if buckets.STEPS.match(name)]
    if not steps:
        return
    steps += [(owner, buckets.EPOCH) for owner in owners if buckets.EPOCH in vars(owner)]
    for owner, name in steps:
        method = vars(owner)[name]
        if type(method) is FunctionType and not hasattr(method, "__wrapped__"):
            undone.append(replace(owner, name, partial(_step, name=name, guard=guard)))


def _step(original: Any, name: str, guard: Guard) -> Any:
    calls = 0

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        begun = clock()
        try:
            result = original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise
        if calls <= CALLS:
            guard.quietly(buckets.stepped, self, name, begun)
        return result

    return step
