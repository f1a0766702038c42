"""Exit statuses of multiprocessing's children, at the moment their parent learns them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace
from ..failures import exits
from ..format import EXIT_REAPED, Kind

# popen_spawn_posix inherits popen_fork's poll; forkserver has its own.
MODULES = ("multiprocessing.popen_fork", "multiprocessing.popen_forkserver")
OWES = (Kind.EXIT,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.Popen, "poll", lambda original: _poll(original, guard))


def _poll(original: Any, guard: Guard) -> Any:
    def poll(self: Any, *args: Any, **kwargs: Any) -> int | None:
        if self.returncode is not None:
            return original(self, *args, **kwargs)  # type: ignore[no-any-return]
        status: int | None = original(self, *args, **kwargs)
        if status is not None:
            try:
                exits.note(self.pid, status, EXIT_REAPED)
            except Exception as error:
                if guard.theirs(error):
                    raise
        return status

    return poll
