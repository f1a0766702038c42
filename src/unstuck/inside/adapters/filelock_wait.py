"""The `filelock` library, by which Hugging Face's libraries wait for each other: which lock file is waited for."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..api import stage
from ..core.guard import Guard, Undo, clean, replace
from ..format import Kind

MODULES = ("filelock._api",)
OWES = (Kind.STAGE,)
WAITING = "waiting for a lock file"


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.BaseFileLock, "acquire", lambda original: waiting(original, _path, guard))


def waiting(original: Any, path_of: Callable[[Any], object], guard: Guard) -> Any:
    """For every method that waits for a lock file."""

    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        path = guard.result(path_of, self)
        try:
            with stage(WAITING, item=path):
                return original(self, *args, **kwargs)
        except Exception as error:
            clean(error)
            raise

    return wait


def _path(lock: Any) -> str:
    context = vars(lock).get("_context")
    path = getattr(context, "lock_file", "")
    return path if type(path) is str else ""
