"""torch's samplers: the length of the dataset, as they are told it, by the name `len` of their modules."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace
from ..format import Kind
from ..loading.sampling import told_lengths

MODULES = ("torch.utils.data.sampler", "torch.utils.data.distributed")
OWES = (Kind.LENGTH,)


def install(module: ModuleType, guard: Guard) -> Undo:
    vars(module).setdefault("len", len)  # Python's own, so that there is something to replace
    return replace(module, "len", lambda original: _len(original, guard))


def _len(original: Any, guard: Guard) -> Any:
    def counted(value: Any) -> int:
        try:
            length: int = original(value)
        except Exception as error:
            clean(error)
            raise
        guard.quietly(told_lengths.add, value, length)
        return length

    return counted
