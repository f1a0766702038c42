"""`unstuck run`: records a command from its first process to its last, then judges it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from ..errors import UserError
from ..inside import run_folder
from ..model.evidence import Run
from ..model.report import Report
from . import place
from .following import TICK, Following
from .parent import Child, exit_code

BOOTSTRAP = str(Path(run_folder.__file__).parent / "bootstrap")


def environment(folder: Path, recordings: Path) -> dict[str, str]:
    """The command's environment: our folder in front of PYTHONPATH, and where to record."""
    inherited = {name: value for name, value in os.environ.items() if name not in (run_folder.RUNS, run_folder.WATCHER)}
    return {
        **inherited,
        "PYTHONPATH": python_path(),
        run_folder.FOLDER: str(folder),
        run_folder.RECORDINGS: str(recordings),
    }


def python_path() -> str:
    """PYTHONPATH with the bootstrap in front. No empty entry: it would put the working folder on the path."""
    before = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != BOOTSTRAP]
    return os.pathsep.join([BOOTSTRAP, *before])


def run_recorded(command: list[str], base: Path, tell: Callable[[Report, Path], None]) -> int:
    """Run it, watch it, judge it; give back the exit code of the command."""
    folder, recordings = place.make(base, command)
    place.forget_old_runs(base)
    lock = place.elect(folder)
    child = start(command, environment(folder, recordings))
    run = place.describe(folder, command, child.pid)
    if lock is None:  # another launcher on this node watches this run: this one only records
        return exit_code(child.wait(lambda: None, every=60.0))
    following = Following(folder, recordings, child.pid, run.started)
    following.tick()
    status = child.wait(following.tick, every=TICK)
    following.child_ended(status)
    following.finish()
    finish(folder, recordings, run, status, tell)
    return exit_code(status)


def run_plainly(command: list[str]) -> int:
    """The same without a recording: it was switched off, or there is no place for one."""
    return exit_code(start(command, os.environ.copy()).wait(lambda: None, every=60.0))


def start(command: list[str], variables: dict[str, str]) -> Child:
    try:
        return Child(command, variables)
    except FileNotFoundError:
        print(f"unstuck: {command[0]}: command not found", file=sys.stderr)
        raise SystemExit(127) from None
    except PermissionError:
        print(f"unstuck: {command[0]}: permission denied", file=sys.stderr)
        raise SystemExit(126) from None


def finish(folder: Path, recordings: Path, run: Run, status: int | None, tell: Callable[[Report, Path], None]) -> None:
    """Write the status down, judge the run, and pass the report on. Nothing here may change the exit code."""
    # Not before the signals are blocked: numpy starts threads, which would take them and die of them.
    from ..diagnose import diagnose

    try:
        place.bring_home(recordings, folder)
        if recordings.parent != folder:
            shutil.rmtree(recordings, ignore_errors=True)
        ended = msgspec.structs.replace(run, status=status)
        (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(ended), indent=1))
        report = diagnose(folder)
        (folder / "report.json").write_bytes(msgspec.json.encode(report))
    except (OSError, UserError) as error:
        print(f"unstuck: the run could not be judged ({error})", file=sys.stderr)
        return
    tell(msgspec.structs.replace(report, evidence=str(folder / "report.json")), folder)
