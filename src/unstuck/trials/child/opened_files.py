"""Which files Python opens while something is done."""

from __future__ import annotations

import os
import sys
from typing import Any

MOST = 2000
NO_DATA = (".py", ".pyc", ".pyi", ".so", ".pth")


class OpenedFiles:
    """A hook of the interpreter's own. It cannot be taken away again, only told not to listen."""

    def __init__(self) -> None:
        self.paths: dict[str, None] = {}
        self.listening = False
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.listening or len(self.paths) >= MOST:
            return
        path, mode = arguments[0], arguments[1]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and (mode is None or "r" in str(mode)) and _is_data(path):
            self.paths[os.path.abspath(path)] = None

    def since(self, before: int) -> list[str]:
        return list(self.paths)[before:]


def _is_data(path: str) -> bool:
    return not path.endswith(NO_DATA) and not path.startswith(("/proc/", "/sys/", "/dev/"))
