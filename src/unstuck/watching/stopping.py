"""Ends a stalled run: first politely, through the process that was started; then everybody who is left, by handle."""

from __future__ import annotations

import os
import signal
import time

from .pidfd import Pidfd

GRACE = 10.0  # seconds to write a checkpoint and go
EXIT_CODE = 124  # as timeout(1) gives


class Stopping:
    """Begun once; asked at every tick whether it is time for force."""

    def __init__(self, child: int, others: set[int]) -> None:
        # torchrun puts its ranks into sessions of their own: no signal to a group reaches them all.
        self._handles = [handle for pid in others | {child} if (handle := _open(pid)) is not None]
        self._deadline = time.monotonic() + GRACE
        os.kill(child, signal.SIGTERM)
        os.kill(child, signal.SIGCONT)  # a stopped process hears nothing else

    def tick(self) -> None:
        if time.monotonic() > self._deadline:
            self.force()

    def force(self) -> None:
        for handle in self._handles:
            handle.kill()


def _open(pid: int) -> Pidfd | None:
    try:
        return Pidfd(pid)
    except OSError:
        return None
