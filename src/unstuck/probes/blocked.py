"""What a main thread is blocked at, at one moment, in two words: cheap enough to be asked every second."""

from __future__ import annotations

import os

from . import kernel
from .descriptors import BY_DESCRIPTOR, kind_of, polled


def waits(pid: int) -> str:
    """`write terminal`, `recvfrom socket`, `poll pipe`, `futex`. Empty: it runs, or nobody may know."""
    call = kernel.call(pid)
    if not call.name:
        return ""
    behind = [call.arguments[0]] if call.name in BY_DESCRIPTOR else polled(pid, call)[:1]
    kind = _kind(pid, behind[0]) if behind else ""
    return f"{call.name} {kind}".strip()


def _kind(pid: int, descriptor: int) -> str:
    link = f"/proc/{pid}/fd/{descriptor}"
    try:
        return kind_of(os.readlink(link), os.stat(link).st_mode)
    except OSError:
        return ""
