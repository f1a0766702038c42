"""`unstuck run`: starts a command, has it watched by a process beside it, and gives back the command's exit code.

The promise is kept here. This process is the command's plain parent: it waits, passes signals on and returns the exit
code. All that looks, writes, judges and speaks happens in another process, the watcher: no error, hang or lack of
memory in it can reach the command or change its code.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ..errors import UserError
from ..inside import run_folder
from ..logs.files import stamp
from ..logs.folder import refusal
from ..logs.quiet import Output
from ..logs.settings import Settings
from ..probes import kernel, tree
from . import place
from .beside import Beside
from .fence import speak
from .following import TICK, descends
from .parent import Child, exit_code, hold_signals
from .stalls import Options
from .stopping import EXIT_CODE
from .watcher import Teller, Watcher

T = TypeVar("T")
BOOTSTRAP = str(Path(run_folder.__file__).parent / "bootstrap")


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
    _take_numbers_of_closed_streams()
    folder, recordings = _fenced(base, lambda: place.make(base, command))
    output = quiet_output(folder / "logs") if settings.quiet else None
    path = None if output is None else output.path
    watcher = _fenced(base, lambda: Watcher(folder, recordings, teller, options, settings, path))
    blocked = hold_signals()
    beside = Beside.started(watcher, command) if apart else None
    pid = beside.pid if beside is not None else os.getpid()
    try:
        child = start(command, environment(folder, recordings, pid), output, blocked)
    except SystemExit:
        if beside is not None:
            beside.close()
        place.discard(folder, recordings)
        raise
    if beside is None:
        return _watched_here(watcher, child, command, output)
    return _watched_beside(beside, child, output)


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
    watches = watcher.begin(command, child.pid)
    status = child.wait(watcher.tick if watches else lambda: None, every=TICK if watches else 60.0)
    if output is not None:
        output.finish()
    if watches:
        watcher.finish(status)
    return EXIT_CODE if watcher.stopped else exit_code(status)


def _watched_beside(beside: Beside, child: Child, output: Output | None) -> int:
    beside.send({"pid": child.pid})
    child.heard = beside.heard
    status = child.wait(lambda: beside.look(child), every=60.0)
    with suppress(OSError):
        if output is not None:
            output.finish()
    beside.send({"status": status})
    beside.wait(child)
    return EXIT_CODE if beside.stopped else exit_code(status)


def run_plainly(command: list[str]) -> int:
    """The same without a recording: it was switched off, or there is no place for one."""
    blocked = hold_signals()
    return exit_code(start(command, dict(os.environ), None, blocked).wait(lambda: None, every=60.0))


def around() -> str | None:
    """The folder of an `unstuck run` that this one runs under, and that watches still: one recording is enough."""
    folder, watcher = (os.environ.get(name, "") for name in (run_folder.FOLDER, run_folder.WATCHER_PID))
    # The variables may have outlived that run, in a terminal multiplexer say, and the pid may be anybody's by now.
    known = bool(folder) and watcher.isdigit() and tree.is_ours(int(watcher))
    seen = kernel.stat(int(watcher)) if known else None
    # The watcher stands beside the command, or is its parent.
    under = seen is not None and (descends(os.getpid(), seen.parent) or descends(os.getpid(), int(watcher)))
    return folder if under else None


def start(command: list[str], variables: dict[str, str], output: Output | None, blocked: set[signal.Signals]) -> Child:
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
            output.started()


def _is_anywhere(name: str) -> bool:
    """A folder on the path that may not be looked into is no command that may not be run."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.sep in name or any(os.path.isfile(os.path.join(folder, name)) for folder in folders)


def quiet_output(folder: Path) -> Output | None:
    """None, and a clear line: the output stays on the console, where it is not lost."""
    path = folder / f"output_{stamp(time.time())}.log"
    try:
        return Output(str(path))
    except OSError as error:
        speak(refusal(str(folder), error), "")
        return None


def _take_numbers_of_closed_streams() -> None:
    """A stream that was closed stays closed for the command, but no file of ours may get its number."""
    while (fd := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
        pass
    os.close(fd)
