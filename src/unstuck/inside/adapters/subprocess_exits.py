"""Exit statuses of children started with subprocess: torchrun's ranks, and helpers such as curl."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, replace
from ..failures import exits
from ..format import EXIT_REAPED, Kind

MODULES = ("subprocess",)
OWES = (Kind.EXIT,)


def install(module: ModuleType, guard: Guard) -> Undo:
    return replace(module.Popen, "_handle_exitstatus", lambda original: _handle(original, guard))


def _handle(original: Any, guard: Guard) -> Any:
    def _handle_exitstatus(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            if self.returncode is not None:
                exits.note(self.pid, self.returncode, EXIT_REAPED)
        except Exception as error:
            if guard.theirs(error):
                raise

    return _handle_exitstatus
