"""The watcher's process beside the command: how the command's parent starts it, talks to it and lives without it."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from ..inside.run_folder import process_start
from ..wording.printable import quoted
from .fence import speak
from .following import TICK
from .parent import ENDING, WAITED, Child, ended
from .pidfd import Handle, handle_on
from .watcher import Watcher

JUDGING = 180.0  # seconds for judging, telling and --on-finding: more than a run of a thousand ranks takes
GRACE = 1.0  # seconds for a watcher to end what it has started
STOPPED = b"stopped"


class Beside:
    """The watcher's process, as the command's parent sees it."""

    def __init__(self, pid: int, line: socket.socket, folder: Path) -> None:
        self.pid, self._line, self._folder = pid, line, folder
        self._gone = False
        self.stopped = False  # it has said that it ended the run

    @classmethod
    def started(cls, watcher: Watcher, command: list[str]) -> Beside | None:
        """None: there can be no further process, or no descriptor. Signals are blocked already."""
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except Exception:  # noqa: BLE001  (whatever it is, the command has to run)
            return None
        try:
            pid = os.fork()
        except Exception:  # noqa: BLE001
            ours.close()
            theirs.close()
            return None
        if pid == 0:
            ours.close()
            _live(watcher, command, theirs)
        theirs.close()
        ours.settimeout(0.0)
        return cls(pid, ours, watcher.folder)

    def send(self, word: dict[str, int], flags: int = 0) -> None:
        with suppress(OSError):  # it is gone
            self._line.send(json.dumps(word).encode(), flags)

    def heard(self, came: signal.struct_siginfo) -> None:
        """A signal came for the command: from which sender, if known. A hung watcher is not waited for."""
        sender = came.si_pid if came.si_code <= 0 else 0
        self.send({"signal": came.si_signo, "by": sender, "code": came.si_code}, socket.MSG_DONTWAIT)

    def look(self, child: Child) -> None:
        """Whether it still lives. Said once if not: the run goes on without it."""
        if self._gone:
            return
        status = child.reaped.get(self.pid) if os.getpid() == 1 else ended(self.pid)
        if status is None:
            return
        self._gone = True
        self._listen()
        if status != 0:
            how = f"signal {-status}" if status < 0 else f"exit code {status}"
            speak(f"the watcher ended early ({how}); the run is unaffected: unstuck why {quoted(str(self._folder))}")

    def wait(self, child: Child) -> None:
        """Until it has judged and spoken. The first signal that asks us to end is obeyed at once."""
        until = time.monotonic() + JUDGING
        self.look(child)
        while not self._gone and time.monotonic() < until:
            came = signal.sigtimedwait(WAITED, 0.5)
            if came is not None and came.si_signo in ENDING:
                break
            child.reap()
            self.look(child)
        if not self._gone:
            if time.monotonic() >= until:
                speak(f"the run was not judged within {JUDGING:.0f} s: unstuck why {quoted(str(self._folder))}")
            self._end()
        self.close()

    def _end(self) -> None:
        """Ask it to leave with what it has started; then it has to."""
        until, force = time.monotonic() + GRACE, time.monotonic() + 2 * GRACE
        with suppress(OSError):
            os.kill(self.pid, signal.SIGTERM)
            while ended(self.pid) is None and time.monotonic() < force:
                if time.monotonic() > until:
                    os.kill(self.pid, signal.SIGKILL)
                time.sleep(0.01)
        self._listen()

    def _listen(self) -> None:
        with suppress(OSError):
            self.stopped = self.stopped or self._line.recv(100) == STOPPED

    def close(self) -> None:
        self._line.close()


def _live(watcher: Watcher, command: list[str], line: socket.socket) -> None:
    """The life of the watcher's process. It ends here, whatever happens, and touches no stream but stderr."""
    code = 70
    try:
        _settle()
        _follow(watcher, command, line)
        code = 0
    except SystemExit:
        code = 0
    except BaseException as error:  # noqa: BLE001  (nothing may come out of this process but its end)
        with suppress(Exception):
            speak(f"the watcher failed ({type(error).__name__}: {error})")
    finally:
        with suppress(Exception):
            if sys.stderr is not None:
                sys.stderr.flush()
        os._exit(code)


def _settle() -> None:
    """Files for the owner alone, as many descriptors as are allowed, and no hold on the command's streams."""
    os.umask(0o077)
    with suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def _follow(watcher: Watcher, command: list[str], line: socket.socket) -> None:
    begun = _heard(line, None)
    pid = (begun or {}).get("pid")
    if pid is None or not watcher.begin(command, pid):
        return
    handle = _handle(pid)
    word: dict[str, int] | None = None
    while word is None:
        word = _heard(line, TICK)
        if word is None:
            watcher.tick()
        elif "signal" in word:
            watcher.heard(word["signal"], word["by"], word["code"])
            word = None
    status = word.get("status")
    if status is None and handle is not None:  # our parent was killed: the command is watched to its end all the same
        while not handle.ended():
            time.sleep(TICK)
            watcher.tick()
        status = handle.status()
    if watcher.stopped:
        with suppress(OSError):
            line.send(STOPPED)
    _hear_sigterm()
    watcher.finish(status)


def _handle(pid: int) -> Handle | None:
    try:
        return handle_on(pid, process_start(pid) or 0)
    except ProcessLookupError:  # it was short
        return None


def _heard(line: socket.socket, seconds: float | None) -> dict[str, int] | None:
    """What the command's parent says. None: nothing within that time. Empty: it is gone."""
    line.settimeout(seconds)
    try:
        word = line.recv(1000)
    except TimeoutError:
        return None
    except OSError:
        return {}
    found: dict[str, int] = json.loads(word) if word else {}
    return found


def _hear_sigterm() -> None:
    """From now on our parent may ask us to leave. What came before was meant for the command."""
    while signal.sigtimedwait({signal.SIGTERM}, 0) is not None:
        pass
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
