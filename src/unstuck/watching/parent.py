"""Runs the user's command as a good parent: streams, signals and exit status pass through untouched."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence

PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
RESTORED = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores these for itself; the command must not


class Child:
    """The running command."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: int | None = None) -> None:
        """With `output`, both its streams go there instead."""
        self._waited = PASSED_ON | {signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
        streams = [] if output is None else [(os.POSIX_SPAWN_DUP2, output, number) for number in (1, 2)]
        self.pid = os.posix_spawnp(
            command[0],
            list(command),
            dict(environment),
            file_actions=streams,
            setsigmask=before,
            setsigdef=RESTORED,
        )
        self.status: int | None = None

    def wait(self, tick: Callable[[], None], every: float) -> int:
        """Until the command ends: signals are dealt with at once, `tick` is called every so many seconds."""
        due = time.monotonic() + every
        while self.status is None:
            came = signal.sigtimedwait(self._waited, max(due - time.monotonic(), 0.0))
            if came is not None and came.si_signo != signal.SIGCHLD:
                self._pass_on(came)
            self._reap()
            if self.status is None and time.monotonic() >= due:
                tick()
                due = time.monotonic() + every
        return self.status

    def _pass_on(self, came: signal.struct_siginfo) -> None:
        """What the terminal sends, the kernel has sent to the whole group; the rest was meant for us alone."""
        if came.si_code <= 0 and self.status is None:
            os.kill(self.pid, came.si_signo)

    def _reap(self) -> None:
        # As PID 1 of a container, orphans are ours too.
        while True:
            try:
                pid, status = os.waitpid(-1 if os.getpid() == 1 else self.pid, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)
                return


def exit_code(status: int) -> int:
    """As a shell gives it."""
    return 128 - status if status < 0 else status
