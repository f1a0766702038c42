"""Exit statuses of processes that are not our children, which newer kernels (6.15) tell through a pidfd."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct

_SIZE = 64  # struct pidfd_info, first version
_GET_INFO = (3 << 30) | (_SIZE << 16) | (0xFF << 8) | 11
_WANT_EXIT = 1 << 3


class Pidfd:
    """A handle on one process that no reuse of its pid can confuse."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._fd = os.pidfd_open(pid)

    def ended(self) -> bool:
        return bool(select.select([self._fd], [], [], 0)[0])

    def status(self) -> int | None:
        """Exit code, or a signal as a negative number. None: the kernel cannot tell, or nobody has reaped it yet."""
        asked = bytearray(struct.pack("<Q", _WANT_EXIT) + bytes(_SIZE - 8))
        try:
            fcntl.ioctl(self._fd, _GET_INFO, asked)
        except OSError:
            return None
        mask, *_, status = struct.unpack_from("<QQ12I", asked)
        return os.waitstatus_to_exitcode(status) if mask & _WANT_EXIT else None

    def kill(self) -> None:
        """SIGKILL to this very process, if it still is there."""
        try:
            signal.pidfd_send_signal(self._fd, signal.SIGKILL)
        except OSError:
            return

    def close(self) -> None:
        os.close(self._fd)
