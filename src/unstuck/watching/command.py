"""Runs the user's command as a good parent: streams, signals and exit status pass through untouched."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence

# What the kernel sends for a fault of our own, what it does to a process whatever that wants, and what stops and
# continues: a shell's business. Python ignores SIGPIPE and SIGXFSZ, which it gets for writes of its own.
OWN = {
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGPIPE,
    signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT,
    signal.SIGCHLD,
}  # fmt: skip
# All others, also those that mean something to one program only: whoever sends them to the command sends them to us.
PASSED_ON: set[int] = {int(number) for number in signal.valid_signals() - OWN}
WITHOUT_NEWS = {signal.SIGWINCH, signal.SIGURG}  # these do nothing to a program that does not ask for them
ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}  # those by which people end a program
WAITED: set[int] = PASSED_ON | {signal.SIGCHLD}
TIMERS = {signal.SIGXCPU, signal.SIGALRM}  # what the kernel sends of these, it sends to one process
UNKNOWN = 255  # the status of a child that somebody else has reaped
RESTORED = [signal.SIGPIPE, signal.SIGXFSZ]  # Python ignores these for itself; the command must not


def hold_signals() -> set[int]:
    """From now on they wait until they are asked for. Gives back what was blocked before, as the command gets it."""
    return {int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)}


def free_signals(blocked: set[int]) -> None:
    """As they were. `blocked`: as `hold_signals` gave it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class Child:
    """The running command."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        output: int | None = None,
        blocked: set[int] | None = None,
    ) -> None:
        """With `output`, both its streams go there instead. `blocked`: as `hold_signals` gave it."""
        before = hold_signals() if blocked is None else blocked
        streams = [] if output is None else [(os.POSIX_SPAWN_DUP2, output, number) for number in (1, 2)]

        def spawn(words: list[str]) -> int:
            return os.posix_spawnp(
                words[0], words, dict(environment), file_actions=streams, setsigmask=before, setsigdef=RESTORED
            )

        try:
            self.pid = spawn(list(command))
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # A script without `#!`: like nohup, time and the shells, let sh run it.
            self.pid = spawn(["/bin/sh", shutil.which(command[0]) or command[0], *command[1:]])
        self.status: int | None = None
        self.heard: Callable[[signal.struct_siginfo], None] = lambda _: None  # told of every signal that came for it
        self.reaped: dict[int, int] = {}  # as PID 1: everybody who has ended, and how

    def wait(self, tick: Callable[[], None], every: float) -> int:
        """Until the command ends: signals are dealt with at once, `tick` is called every so many seconds."""
        due = time.monotonic() + every
        while self.status is None:
            came = signal.sigtimedwait(WAITED, max(due - time.monotonic(), 0.0))
            if came is not None and came.si_signo != signal.SIGCHLD:
                self._pass_on(came)
            self.reap()
            if self.status is None and time.monotonic() >= due:
                tick()
                due = time.monotonic() + every
        return self.status

    def _pass_on(self, came: signal.struct_siginfo) -> None:
        """What the terminal sends, the kernel has sent to the whole group; the rest was meant for us alone."""
        if (came.si_code <= 0 or came.si_signo in TIMERS) and self.status is None:
            with contextlib.suppress(OSError):  # it has another user's rights by now: sudo passes signals on by itself
                os.kill(self.pid, came.si_signo)
        if came.si_signo not in WITHOUT_NEWS:
            self.heard(came)

    def reap(self) -> None:
        """The command; and as PID 1 of a container, whoever has lost his parent."""
        if os.getpid() == 1:
            self._reap_all()
        elif self.status is None:
            self.status = ended(self.pid)

    def _reap_all(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.reaped[pid] = os.waitstatus_to_exitcode(status)
            self.status = self.reaped.get(self.pid)


def ended(pid: int) -> int | None:
    """The status of a child of ours that has ended: an exit code, or a signal as a negative number."""
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return UNKNOWN
    return os.waitstatus_to_exitcode(status) if found else None


def exit_code(status: int) -> int:
    """As a shell gives it."""
    return 128 - status if status < 0 else status
