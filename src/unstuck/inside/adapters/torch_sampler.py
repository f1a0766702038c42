"""torch's samplers: the length of the dataset, as they are told it, by the name `len` of their modules."""

from __future__ import annotations

from types import FrameType, ModuleType
from typing import Any

from ..core.guard import Guard, Undo, after, replace
from ..format import Kind
from ..loading.sampling import told_lengths

MODULES = ("torch.utils.data.sampler", "torch.utils.data.distributed")
OWES = (Kind.LENGTH,)


def install(module: ModuleType, guard: Guard) -> Undo:
    vars(module).setdefault("len", len)  # Python's own, so that there is something to replace
    return replace(module, "len", lambda original: after(original, guard, _counted))


def _counted(_frame: FrameType, args: Any, _kwargs: Any, length: int) -> None:
    told_lengths.add(args[0], length)
