"""Ends a stalled run: first politely, through the process that was started; then everybody who is left, by handle."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from .pidfd import Handle, handle_on

GRACE = 10.0  # seconds to write a checkpoint and go
EXIT_CODE = 124  # as timeout(1) gives


class Stopping:
    """Begun once; asked at every tick whether it is time for force.

    `members` are processes that descend from the command, by pid and start time: nobody else is ever signalled.
    """

    def __init__(self, child: tuple[int, int], members: Iterable[tuple[int, int]]) -> None:
        # torchrun puts its ranks into sessions of their own: no signal to a group reaches them all.
        first = _open(child)
        self._handles = [handle for member in set(members) - {child} if (handle := _open(member)) is not None]
        self._handles += [first] if first is not None else []
        self._deadline = time.monotonic() + GRACE
        if first is not None:
            first.send(signal.SIGTERM)
            first.send(signal.SIGCONT)  # a stopped process hears nothing else

    def tick(self) -> None:
        if time.monotonic() > self._deadline:
            self.force()

    def force(self) -> None:
        for handle in self._handles:
            handle.send(signal.SIGKILL)


def _open(member: tuple[int, int]) -> Handle | None:
    try:
        return handle_on(*member)
    except ProcessLookupError:
        return None
