"""`unstuck run`: records a command from its first process to its last, then judges it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Protocol

import msgspec

from ..errors import UserError
from ..inside import run_folder
from ..logs.files import stamp
from ..logs.folder import LogFolder, refusal
from ..logs.line import Line
from ..logs.quiet import Output
from ..logs.settings import Settings
from ..logs.writer import Logs
from ..model.evidence import Run
from ..model.report import Report
from ..probes import tree
from . import place
from .following import TICK, Following
from .foresight import Foresight
from .glances import Glances
from .parent import Child, exit_code
from .stalls import Options, Stalls
from .stopping import EXIT_CODE, Stopping


class Teller(Protocol):
    """Who speaks to the user, and how, is not the watcher's business."""

    def stall(self, report: Report, folder: Path) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self, report: Report, folder: Path) -> None: ...
    def line(self, line: Line) -> None: ...


class Logged:
    """The same, and into the run's logs."""

    def __init__(self, teller: Teller, folder: LogFolder) -> None:
        self._teller, self._folder = teller, folder

    def stall(self, report: Report, folder: Path) -> None:
        self._folder.report(report)
        self._teller.stall(report, folder)

    def say(self, line: str) -> None:
        self._folder.say(line)
        self._teller.say(line)

    def end(self, report: Report, folder: Path) -> None:
        self._folder.report(report)
        self._folder.close(time.time())
        self._teller.end(report, folder)

    def line(self, line: Line) -> None:
        self._teller.line(line)


BOOTSTRAP = str(Path(run_folder.__file__).parent / "bootstrap")


def environment(folder: Path, recordings: Path) -> dict[str, str]:
    """The command's environment: our folder in front of PYTHONPATH, and where to record."""
    inherited = {name: value for name, value in os.environ.items() if name not in (run_folder.RUNS, run_folder.WATCHER)}
    return {
        **inherited,
        "PYTHONPATH": python_path(),
        run_folder.FOLDER: str(folder),
        run_folder.RECORDINGS: str(recordings),
        run_folder.WATCHER_PID: str(os.getpid()),
    }


def python_path() -> str:
    """PYTHONPATH with the bootstrap in front. No empty entry: it would put the working folder on the path."""
    before = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != BOOTSTRAP]
    return os.pathsep.join([BOOTSTRAP, *before])


def run_recorded(command: list[str], base: Path, teller: Teller, options: Options, settings: Settings) -> int:
    """Run it, watch it, judge it; give back the exit code of the command, or that of a run that had to be stopped."""
    folder, recordings = place.make(base, command)
    place.forget_old_runs(base)
    lock = place.elect(folder)
    output = quiet_output(folder / "logs") if settings.quiet else None
    child = start(command, environment(folder, recordings), output)
    run = place.describe(folder, command, child.pid)
    if lock is None:  # another launcher on this node watches this run: this one only records
        return exit_code(child.wait(lambda: None, every=60.0))
    written = LogFolder(str(folder / "logs"), run, settings, run.started)
    if settings.quiet and output is None:
        written.give_up()  # it was said why
    logs = Logs(written, str(recordings), teller.line if output else None)
    if output is not None:
        teller.say(f"Monitor logs with: tail -f {written.main_log} {output.path}")
    told = Logged(teller, written)
    watch = Watch(folder, recordings, child.pid, run.started, told, options, logs)
    watch.tick()
    status = child.wait(watch.tick, every=TICK)
    watch.close()
    if output is not None:
        output.finish()
    watch.following.child_ended(status)
    watch.following.finish()
    written.ended(status, time.time())
    stopped = watch.stalls.report if watch.stopping is not None else None
    finish(folder, recordings, run, status, told, stopped)
    return exit_code(status) if watch.stopping is None else EXIT_CODE


def quiet_output(folder: Path) -> Output | None:
    """None, and a clear line: the output stays on the console, where it is not lost."""
    path = folder / f"output_{stamp(time.time())}.log"
    try:
        return Output(str(path))
    except OSError as error:
        print(refusal(str(folder), error), file=sys.stderr)
        return None


class Watch:
    """Everything that is done about a running command, twice a second."""

    def __init__(
        self,
        folder: Path,
        recordings: Path,
        pid: int,
        started: float,
        teller: Teller,
        options: Options,
        logs: Logs,
    ) -> None:
        self.following = Following(folder, recordings, pid, started)
        self.stalls = Stalls(folder, recordings, pid, options, teller.stall, teller.say)
        self._foresight = Foresight(folder, teller.say)
        self._glances = Glances(self.stalls.recorded, self.following.journal, started)
        self.stopping: Stopping | None = None
        self._logs = logs
        self._gave_up = False
        self._pid = pid
        self._started = started

    def tick(self) -> None:
        self.following.mains = self._glances.mains()
        self.following.tick()
        self._write_logs()
        if self.stopping is not None:
            self.stopping.tick()
            return
        self.stalls.tick(self._started, self.following.alive())
        last = self.following.last
        self._glances.tick(time.time(), {one.pid: one.waits for one in last.processes} if last else {})
        if self.stalls.report is None:
            self._foresight.tick(self.following.now(), self.stalls.ranks(), begun=self.stalls.recorded.begun())
        if self.stalls.wants_stop:
            self.stopping = Stopping(self._pid, self.following.alive() | set(tree.Tree().below(self._pid)))

    def close(self) -> None:
        self.stalls.close()
        self._foresight.close()
        self._glances.close()
        if self.stopping is not None:
            self.stopping.force()
        self._write_logs(final=True)

    def _write_logs(self, *, final: bool = False) -> None:
        """A log is no reason to stop watching, whatever a recording holds."""
        alive = set() if final else self.following.alive()
        try:
            if not self._gave_up:
                self._logs.tick(time.time(), alive, self.following.last, final=final)
        except Exception as error:  # noqa: BLE001
            self._gave_up = True
            text = f"the logs end early ({type(error).__name__}: {error}); the run goes on"
            print(f"unstuck: {text}", file=sys.stderr)
            self._logs.folder.say(text)


def run_plainly(command: list[str]) -> int:
    """The same without a recording: it was switched off, or there is no place for one."""
    return exit_code(start(command, os.environ.copy()).wait(lambda: None, every=60.0))


def start(command: list[str], variables: dict[str, str], output: Output | None = None) -> Child:
    try:
        return Child(command, variables, None if output is None else output.fd)
    except FileNotFoundError:
        print(f"unstuck: {command[0]}: command not found", file=sys.stderr)
        raise SystemExit(127) from None
    except PermissionError:
        print(f"unstuck: {command[0]}: permission denied", file=sys.stderr)
        raise SystemExit(126) from None
    finally:
        if output is not None:
            output.started()


def finish(
    folder: Path, recordings: Path, run: Run, status: int | None, teller: Teller, stopped: Report | None = None
) -> None:
    """Write the status down, judge the run, and pass the report on. Nothing here may change the exit code.

    A run that was stopped was judged before: how it died says nothing more.
    """
    # Not before the signals are blocked: numpy starts threads, which would take them and die of them.
    from ..diagnose import diagnose

    try:
        place.bring_home(recordings, folder)
        if recordings.parent != folder:
            shutil.rmtree(recordings, ignore_errors=True)
        ended = msgspec.structs.replace(run, status=status)
        (folder / "run.json").write_bytes(msgspec.json.format(msgspec.json.encode(ended), indent=1))
        report = stopped or diagnose(folder)
        (folder / "report.json").write_bytes(msgspec.json.encode(report))
    except (OSError, UserError) as error:
        print(f"unstuck: the run could not be judged ({error})", file=sys.stderr)
        return
    teller.end(msgspec.structs.replace(report, evidence=str(folder / "report.json")), folder)
