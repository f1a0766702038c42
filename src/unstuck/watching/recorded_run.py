"""`unstuck run`: starts a command, has it watched by a process beside it, and gives back the command's exit code.

The promise is kept here. This process is the command's plain parent: it waits, passes signals on and returns the exit
code. All that looks, writes, judges and speaks happens in another process, the watcher: no error, hang or lack of
memory in it can reach the command or change its code.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..errors import UserError
from ..inside.core import run_folder
from ..logs.files import Settings, stamp
from ..logs.folder import refusal
from ..logs.quiet import Output
from ..probes import kernel, processes
from ..safe_files import let_go
from ..wording.printable import quoted
from . import run_storage
from .command import ENDING, WAITED, Child, ended, exit_code, free_signals, hold_signals
from .fence import speak
from .follow import TICK, descends
from .handles import STALLED, Handle, handle_on
from .stalls import Options
from .watcher import Teller, Watcher

T = TypeVar("T")
BOOTSTRAP = str(Path(__file__).parents[1] / "inside" / "bootstrap")
SELDOM = 60.0  # seconds between two ticks of a parent that has nothing to look at itself
JUDGING = 180.0  # seconds for judging, telling and --on-finding: more than a run of a thousand ranks takes
GRACE = 1.0  # seconds for a watcher to end what it has started
STOPPED = b"stopped"


def environment(folder: Path, recordings: Path, watcher: int) -> dict[str, str]:
    """The command's environment: our folder in front of PYTHONPATH, and where to record."""
    inherited = {name: value for name, value in os.environ.items() if name not in (run_folder.RUNS, run_folder.WATCHER)}
    return {
        **inherited,
        "PYTHONPATH": python_path(),
        run_folder.FOLDER: str(folder),
        run_folder.RECORDINGS: str(recordings),
        run_folder.WATCHER_PID: str(watcher),
    }


def python_path() -> str:
    """PYTHONPATH with the bootstrap in front. No empty entry: it would put the working folder on the path."""
    before = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != BOOTSTRAP]
    return os.pathsep.join([BOOTSTRAP, *before])


def run_recorded(
    command: list[str], base: Path, teller: Teller, options: Options, settings: Settings, *, apart: bool = True
) -> int:
    """Run it, have it watched and judged; give back its exit code, or that of a run that had to be stopped.

    `apart`: the watcher is a process of its own. Trials, whose exit code is nobody's, are watched by their parent.
    Raises UserError where nothing can be recorded: nothing has been started then.
    """
    ready = _fenced(base, lambda: _ready(command, base, teller, options, settings, apart=apart))
    try:
        child = _fenced(base, lambda: start(command, ready.variables, ready.output, ready.blocked))
    except (SystemExit, UserError):
        free_signals(ready.blocked)
        if ready.beside is not None:
            ready.beside.close()
        run_storage.discard(ready.watcher.folder, ready.watcher.recordings)
        raise
    if ready.beside is None:
        return _watched_here(ready.watcher, child, command, ready.output)
    return _watched_beside(ready.beside, child, ready.output)


class Ready(NamedTuple):
    """All that is there before the command is started."""

    watcher: Watcher
    output: Output | None
    blocked: set[int]
    beside: WatcherProcess | None
    variables: dict[str, str]


def _ready(
    command: list[str], base: Path, teller: Teller, options: Options, settings: Settings, *, apart: bool
) -> Ready:
    _take_numbers_of_closed_streams()
    folder, recordings = run_storage.make(base, command)
    output = _quiet_output(folder / "logs") if settings.quiet else None
    watcher = Watcher(folder, recordings, teller, options, settings, None if output is None else output.path)
    blocked = hold_signals()
    beside = None
    try:
        beside = WatcherProcess.started(watcher, command) if apart else None
        variables = environment(folder, recordings, beside.pid if beside is not None else os.getpid())
    except BaseException:
        free_signals(blocked)
        with suppress(Exception):
            if beside is not None:
                beside.close()
            if output is not None:
                output.started()
        raise
    return Ready(watcher, output, blocked, beside, variables)


def _fenced(base: Path, step: Callable[[], T]) -> T:
    """What has to work before the command is started. Whatever goes wrong, the command has to run."""
    try:
        return step()
    except UserError:
        raise
    except Exception as error:
        remedy = "the command runs unrecorded; --run-dir DIR names another place"
        raise UserError(f"no recording in {base} ({type(error).__name__}: {error})", remedy) from error


def _watched_here(watcher: Watcher, child: Child, command: list[str], output: Output | None) -> int:
    """Also where there can be no further process: then the command's parent has to watch, as far as it gets."""
    try:
        return _watched_by_us(watcher, child, command, output)
    except Exception as error:  # noqa: BLE001  (the command runs, and its code is what we owe)
        return _left_alone(child, watcher.folder, error)
    finally:
        let_go(watcher.folder)


def _watched_by_us(watcher: Watcher, child: Child, command: list[str], output: Output | None) -> int:
    watches = watcher.begin(command, child.pid)
    status = child.wait(watcher.tick if watches else lambda: None, every=TICK if watches else SELDOM)
    if output is not None:
        output.finish()
    if watches:
        watcher.finish(status)
    return STALLED if watcher.stopped else exit_code(status)


def _watched_beside(beside: WatcherProcess, child: Child, output: Output | None) -> int:
    try:
        return _told_beside(beside, child, output)
    except Exception as error:  # noqa: BLE001
        with suppress(Exception):
            beside.close()  # it goes on alone, to the end of the command, and judges it
        return _left_alone(child, beside.folder, error)


def _told_beside(beside: WatcherProcess, child: Child, output: Output | None) -> int:
    beside.send({"pid": child.pid})
    child.heard = beside.heard
    status = child.wait(lambda: beside.look(child), every=SELDOM)
    with suppress(Exception):
        if output is not None:
            output.finish()
    beside.send({"status": status})
    beside.wait(child)
    return STALLED if beside.stopped else exit_code(status)


def _left_alone(child: Child, folder: Path, error: Exception) -> int:
    """Something of ours failed while the command runs: from here on we are its plain parent and nothing else."""
    what = f"{type(error).__name__}: {error}"
    with suppress(Exception):
        speak(f"the watcher ended early ({what}); the run is unaffected: unstuck why {quoted(str(folder))}")
    child.heard = lambda _: None
    return exit_code(child.wait(lambda: None, every=SELDOM))


def run_plainly(command: list[str]) -> int:
    """The same without a recording: it was switched off, or there is no place for one."""
    blocked = hold_signals()
    return exit_code(start(command, dict(os.environ), None, blocked).wait(lambda: None, every=SELDOM))


def around() -> str | None:
    """The folder of an `unstuck run` that this one runs under, and that watches still: one recording is enough."""
    folder, watcher = (os.environ.get(name, "") for name in (run_folder.FOLDER, run_folder.WATCHER_PID))
    # The variables may have outlived that run, in a terminal multiplexer say, and the pid may be anybody's by now.
    known = bool(folder) and watcher.isdigit() and processes.is_ours(int(watcher))
    seen = kernel.stat(int(watcher)) if known else None
    # The watcher stands beside the command, or is its parent.
    under = seen is not None and (descends(os.getpid(), seen.parent) or descends(os.getpid(), int(watcher)))
    return folder if under else None


def start(command: list[str], variables: dict[str, str], output: Output | None, blocked: set[int]) -> Child:
    """As a shell does: 127 for a command that is not there, 126 for one that cannot be run."""
    try:
        return Child(command, variables, None if output is None else output.fd, blocked)
    except OSError as error:
        missing = error.errno == errno.ENOENT or (error.errno == errno.EACCES and not _is_anywhere(command[0]))
        denied = "permission denied" if error.errno == errno.EACCES else error.strerror
        speak(f"{command[0]}: {'command not found' if missing else denied}", "unstuck: ")
        raise SystemExit(127 if missing else 126) from None
    finally:
        if output is not None:
            with suppress(Exception):  # the command may be there by now, and must not be started twice
                output.started()


def _is_anywhere(name: str) -> bool:
    """A folder on the path that may not be looked into is no command that may not be run."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.sep in name or any(os.path.isfile(os.path.join(folder, name)) for folder in folders)


def _quiet_output(folder: Path) -> Output | None:
    """None, and a clear line: the output stays on the console, where it is not lost."""
    path = folder / f"output_{stamp(time.time())}.log"
    try:
        return Output(str(path))
    except OSError as error:
        failed = error
    except Exception as error:  # noqa: BLE001
        failed = OSError(0, f"{type(error).__name__}: {error}")
    speak(refusal(str(folder), failed), "")
    return None


def _take_numbers_of_closed_streams() -> None:
    """A stream that was closed stays closed for the command, but no file of ours may get its number."""
    while (fd := _nothing()) <= 2:
        pass
    os.close(fd)


def _nothing() -> int:
    """A descriptor from which nothing comes, and into which nothing goes. There are containers without /dev/null."""
    try:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        reader, writer = os.pipe()
        os.close(writer)
        return reader


class WatcherProcess:
    """The watcher's process beside the command, as its parent starts it, talks to it and lives without it."""

    def __init__(self, pid: int, line: socket.socket, folder: Path) -> None:
        self.pid, self._line, self.folder = pid, line, folder
        self._gone = False
        self.stopped = False  # it has said that it ended the run

    @classmethod
    def started(cls, watcher: Watcher, command: list[str]) -> WatcherProcess | None:
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
            speak(f"the watcher ended early ({how}); the run is unaffected: unstuck why {quoted(str(self.folder))}")

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
                speak(f"no verdict within {JUDGING:.0f} s: unstuck why {quoted(str(self.folder))}")
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
    null = _nothing()
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
    hear_sigterm()
    watcher.finish(status)


def _handle(pid: int) -> Handle | None:
    try:
        return handle_on(pid, run_folder.process_start(pid) or 0)
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


def hear_sigterm() -> None:
    """From now on we may be asked to leave. What came before was meant for the command."""
    while signal.sigtimedwait({signal.SIGTERM}, 0) is not None:
        pass
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
