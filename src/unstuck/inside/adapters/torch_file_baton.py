"""torch's FileBaton, by which processes wait for each other's builds of an extension: the lock file it waits for.

A lock file that its owner left behind is waited for without end, and without a word.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..api import stage
from ..core.guard import Guard, Undo, clean, replace
from ..format import Kind

MODULES = ("torch.utils.file_baton",)
OWES = (Kind.STAGE,)
WAITING = "waiting for a lock file"


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.FileBaton, "wait", lambda original: _wait(original, guard))


def _wait(original: Any, _: Guard) -> Any:
    def wait(self: Any) -> None:
        try:
            with stage(WAITING, item=self.lock_file_path):
                original(self)
        except Exception as error:
            clean(error)
            raise

    return wait
