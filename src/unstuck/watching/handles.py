"""Handles on processes that are not our children: whether they live, how they ended, a signal to this very one.

With them a stalled run is ended: first politely, through the process that was started; then everybody who is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import time
from collections.abc import Iterable

from ..inside.core.run_folder import process_start
from ..probes import kernel

GRACE = 10.0  # seconds to write a checkpoint and go
STALLED = 124  # the exit code of a run that was stopped, as timeout(1) gives it
_SIZE = 64  # struct pidfd_info, first version
_GET_INFO = (3 << 30) | (_SIZE << 16) | (0xFF << 8) | 11
_WANT_EXIT = 1 << 3


class Pidfd:
    """One process that no reuse of its pid can confuse. Newer kernels (6.15) also tell how it ended."""

    def __init__(self, pid: int, started: int | None = None) -> None:
        """`started`: only if the process with this pid was started then. Raises OSError where there is no such one."""
        self.pid = pid
        self._fd = os.pidfd_open(pid)
        if started is not None and process_start(pid) != started:
            os.close(self._fd)
            raise ProcessLookupError(pid)

    def ended(self) -> bool:
        waiting = select.poll()  # select() takes no descriptor above 1023
        waiting.register(self._fd, select.POLLIN)
        return bool(waiting.poll(0))

    def status(self) -> int | None:
        """Exit code, or a signal as a negative number. None: the kernel cannot tell, or nobody has reaped it yet."""
        asked = bytearray(struct.pack("<Q", _WANT_EXIT) + bytes(_SIZE - 8))
        try:
            fcntl.ioctl(self._fd, _GET_INFO, asked)
        except OSError:
            return None
        mask, *_, status = struct.unpack_from("<QQ12I", asked)
        return os.waitstatus_to_exitcode(status) if mask & _WANT_EXIT else None

    def send(self, number: signal.Signals) -> None:
        """A signal to this very process, if it still is there and we may."""
        try:
            signal.pidfd_send_signal(self._fd, number)
        except OSError:
            return

    def close(self) -> None:
        os.close(self._fd)


class ByStart:
    """The same where no descriptor is to be had: /proc is asked each time whether it still is this process."""

    def __init__(self, pid: int, started: int) -> None:
        self.pid, self._started = pid, started
        if self.ended():
            raise ProcessLookupError(pid)

    def ended(self) -> bool:
        seen = kernel.stat(self.pid)
        return seen is None or seen.started != self._started or seen.state in "ZX"

    def status(self) -> int | None:
        return None

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            if not self.ended():
                os.kill(self.pid, number)

    def close(self) -> None:
        return


Handle = Pidfd | ByStart


def handle_on(pid: int, started: int) -> Handle:
    """Raises ProcessLookupError where the process that was started then is gone."""
    try:
        return Pidfd(pid, started)
    except ProcessLookupError:
        raise
    except OSError:  # all descriptors are in use, or the kernel is older than 5.3
        return ByStart(pid, started)


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
