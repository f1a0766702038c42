"""Ready to be looked at: the watcher may trace this process; where it is refused that, stacks are written on a signal.

`faulthandler` writes them, into a file of the process's own beside its recording, without a line of Python being run.
The file has a high descriptor: should a program close what it does not know, the number is not given away at once.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import sys
import weakref
from collections.abc import Callable
from typing import Any

from .. import format as f
from . import run_folder
from .guard import replace
from .recorder import Recorder

PR_SET_PTRACER = 0x59616D61
FIRST_CHOICE = 11  # above SIGRTMIN: those below are known to be used by debuggers, and by runtimes of other languages
HIGH = 900  # descriptor
FAULTS = (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)  # that faulthandler handles
NOBODYS = (0,) * len(FAULTS)
SIGACTION = 256  # bytes: more than any C library's struct, whose first word is the handler


class Stacks:
    """The file for this process's stacks, and who may ask for them."""

    __slots__ = ("crashes", "fd", "handlers", "hidden", "identity", "path", "prctl", "recorder", "signal")

    def __init__(self) -> None:
        self.fd = -1
        self.identity: tuple[int, int] | None = None  # of the file that the descriptor was opened for
        self.path = ""
        self.recorder: Recorder | None = None
        self.signal = 0
        self.prctl: Any = None
        self.crashes: weakref.ref[_File] | None = None  # lives for as long as faulthandler writes into it
        self.handlers: tuple[int, ...] | None = None  # of faults, as we left them
        self.hidden = False  # that it is us who have enabled faulthandler

    def permit(self) -> None:
        """Let the watcher, and what it starts, trace this process under Yama. Elsewhere it is needless."""
        ctypes = sys.modules.get("ctypes")  # torch imports it; it is not imported for us
        watcher = os.environ.get(run_folder.WATCHER_PID, "")
        if ctypes is None or not watcher.isdigit():
            return
        if self.prctl is None:
            prctl = ctypes.CDLL(None).prctl
            prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
            self.prctl = prctl
        self.prctl(PR_SET_PTRACER, int(watcher), 0, 0, 0)

    def answer(self, recorder: Recorder) -> None:
        """From now on this process writes its stacks down on a signal, and its recording says on which."""
        if self.recorder is recorder:
            return
        number = self.signal or _free_signal()
        if not number or not self._open(recorder.path.removesuffix(".rec") + ".stacks"):
            return
        faulthandler.register(number, file=self.fd, all_threads=True, chain=False)
        self.recorder, self.signal = recorder, number
        recorder.words[f.H_STACK_SIGNAL] = number

    def keep_crashes(self) -> None:
        """The same at a fault that ends the process. What the user has switched on for that stays as it is."""
        if self.recorder is not None and not faulthandler.is_enabled():
            faulthandler.enable(file=self.fd, all_threads=True)

    def keep_crashes_of_main(self) -> None:
        """The same in a main process, where nothing else handles faults: neither the user nor a native library.

        A program that looks whether faulthandler is enabled, and enables it for itself if not, still does so.
        """
        if self.recorder is None or faulthandler.is_enabled() or _handlers() != NOBODYS:
            return
        file = _File(self.fd)
        faulthandler.enable(file=file, all_threads=True)
        self.crashes, self.handlers = weakref.ref(file), _handlers()
        if not self.hidden:
            self.hidden = True
            replace(faulthandler, "is_enabled", self._as_without_us)

    def _as_without_us(self, original: Callable[[], bool]) -> Callable[[], bool]:
        def is_enabled() -> bool:
            return original() and (self.crashes is None or self.crashes() is None)

        return is_enabled

    def after_fork(self) -> None:
        """In the child: it writes nothing into its parent's file, and nothing at all until it has its own."""
        if self.crashes is not None:
            if (
                self.crashes() is not None and _handlers() == self.handlers
            ):  # as we left it: nothing of theirs is undone
                faulthandler.disable()
            self.crashes = None
        self.recorder, self.path = None, ""
        if self._is_open():
            self._put(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
        if self.prctl is not None:
            self.permit()

    def tidy(self) -> None:
        """The process ends in order: nobody asks any more, and an empty file says nothing."""
        if self.recorder is None:
            return
        self.recorder.words[f.H_STACK_SIGNAL] = 0
        try:
            if self.path and not os.stat(self.path).st_size:
                os.unlink(self.path)
        except OSError:
            pass
        self.path = ""

    def _open(self, path: str) -> bool:
        try:
            self._put(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except OSError:
            return False
        self.path = path
        return True

    def _put(self, fd: int) -> None:
        """Have it under the number that is known to faulthandler, if that is still ours; else under a new one."""
        if self._is_open():
            os.dup2(fd, self.fd, inheritable=False)
            os.close(fd)
        else:
            self.fd = _raised(fd)
        status = os.fstat(self.fd)
        self.identity = (status.st_dev, status.st_ino)

    def _is_open(self) -> bool:
        """Whether the descriptor is what we opened: the user may have closed it, and have another under its number."""
        if self.fd < 0:
            return False
        try:
            status = os.fstat(self.fd)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity


class _File:
    """What faulthandler is given instead of a number: it lets go of it when somebody else takes its place."""

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def flush(self) -> None:
        """It is asked for."""


def _handlers() -> tuple[int, ...] | None:
    """Who handles faults now: also native code, of which Python's own table does not know. None: it cannot be asked."""
    ctypes = sys.modules.get("ctypes")
    if ctypes is None:
        return None
    ask, answer, found = ctypes.CDLL(None).sigaction, ctypes.create_string_buffer(SIGACTION), []
    for number in FAULTS:
        if ask(int(number), None, answer) != 0:
            return None
        found.append(int.from_bytes(answer.raw[:8], sys.byteorder))
    return tuple(found)


def _raised(fd: int) -> int:
    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH)
    except OSError:  # the limit is lower
        return fd
    os.close(fd)
    return high


def _free_signal() -> int:
    """A signal that nobody uses: neither Python's own table knows of a handler, nor the kernel. 0: there is none."""
    used = _used_signals()
    for number in range(signal.SIGRTMIN + FIRST_CHOICE, signal.SIGRTMAX + 1):
        if signal.getsignal(number) is signal.SIG_DFL and not used >> (number - 1) & 1:
            return number
    return 0


def _used_signals() -> int:
    """Signals that this process catches, ignores or blocks, as a mask."""
    used = 0
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith((b"SigBlk:", b"SigIgn:", b"SigCgt:")):
                    used |= int(line.split()[1], 16)
    except (OSError, ValueError):
        return 0
    return used


stacks = Stacks()
