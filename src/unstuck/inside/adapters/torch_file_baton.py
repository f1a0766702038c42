"""torch's FileBaton, by which processes wait for each other's builds of an extension: the lock file it waits for.

A lock file that its owner left behind is waited for without end, and without a word.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace
from ..core.objects import attributes_of
from ..format import Kind
from .filelock_wait import waiting

MODULES = ("torch.utils.file_baton",)
OWES = (Kind.STAGE,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.FileBaton, "wait", lambda original: waiting(original, _path, guard))


def _path(baton: Any) -> object:
    return attributes_of(baton).get("lock_file_path")
