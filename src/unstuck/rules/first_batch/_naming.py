"""How a process is named at the beginning of a cause."""

from __future__ import annotations

from ...evidence.live import Seen
from ...evidence.process import Process
from ...wording.text import who


def subject_of(process: Process | Seen) -> str:
    """`Worker 1 of rank 0`, `The main process`: its pid is printed with the finding."""
    name = who(process).replace(f" (pid {process.pid})", "")
    return name[:1].upper() + name[1:]
