"""The watcher: follows a command from its first process to its last, then judges it. Each part is fenced."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from .. import retention
from ..evidence import Run
from ..logs.files import Line, Settings
from ..logs.folder import LogFolder
from ..logs.writer import Logs
from ..probes import kernel, processes
from ..report import Report, encoded
from ..safe_files import check_held, write_private
from ..wording.printable import quoted_line
from . import run_storage
from .fence import Fence, speak
from .follow import Following, RunClock
from .foresight import Foresight
from .handles import Stopping
from .slow_steps import Glances
from .stalls import Options, Stalls


class Teller(Protocol):
    """Who speaks to the user, and how, is not the watcher's business."""

    def stall(self, report: Report, folder: Path) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self, report: Report, folder: Path) -> None: ...
    def line(self, line: Line) -> None: ...


class Logged:
    """The same, and into the run's logs. Neither failing keeps the other from speaking."""

    def __init__(self, teller: Teller, folder: LogFolder, fence: Fence) -> None:
        self._teller, self._folder, self._fence = teller, folder, fence

    def stall(self, report: Report, folder: Path) -> None:
        self._fence.run("writing the logs", self._folder.report, report)
        self._fence.run("telling the cause", self._teller.stall, report, folder)

    def say(self, line: str) -> None:
        self._fence.run("writing the logs", self._folder.say, line)
        self._teller.say(line)

    def end(self, report: Report, folder: Path) -> None:
        self._fence.run("writing the logs", self._folder.report, report)
        self._fence.run("writing the logs", self._folder.close, time.time())
        self._fence.run("telling the cause", self._teller.end, report, folder)


class Watcher:
    """Everything that is done about one running command on this node."""

    def __init__(
        self, folder: Path, recordings: Path, teller: Teller, options: Options, settings: Settings, output: str | None
    ) -> None:
        """`output`: the file that takes the command's own output, if that is quiet."""
        self.folder, self.recordings = folder, recordings
        self._teller, self._options, self._settings, self._output = teller, options, settings, output
        self._fence = Fence(folder, teller.say)
        self._parts: Parts | None = None
        self._lock: run_storage.Lock | None = None

    def begin(self, command: list[str], pid: int) -> bool:
        """False: another launcher on this node watches this run, and this one only records."""
        lock = self._fence.run("electing the watcher", run_storage.elect, self.folder)
        if lock is None and not self._fence.failed("electing the watcher"):
            return False
        self._lock = lock
        self._parts = self._fence.run("watching", self._begun, command, pid)
        self.tick()
        return True

    def _begun(self, command: list[str], pid: int) -> Parts:
        run = self._fence.run("describing the run", run_storage.describe, self.folder, command, pid)
        run = run or Run(id=run_storage.text(self.folder.name), started=time.time(), pid=pid)
        return Parts(self, run, pid)

    def tick(self) -> None:
        if self._parts is not None:
            self._parts.tick()

    def heard(self, number: int, sender: int, code: int) -> None:
        """A signal came for the command. `code`: as the kernel has it, above 0 where the kernel itself sent it."""
        if self._parts is not None:
            self._fence.run("following the processes", self._parts.following.heard, number, sender, code)

    @property
    def stopped(self) -> bool:
        """The run stood still and was ended by us."""
        return self._parts is not None and self._parts.stopping is not None

    def anyone(self) -> bool:
        return self._parts is not None and self._parts.following.anyone()

    def finish(self, status: int | None) -> None:
        """The command has ended: judge it and say what was found. `status` is None where only its parent knows it."""
        parts = self._parts
        if self._lock is not None:
            self._lock.say_over()
        if parts is not None:
            parts.close(status)
            report = self._judged(parts, status)
            if report is not None:
                parts.told.end(report, self.folder)
        if self._lock is not None:
            self._lock.close()
        self._fence.run("removing old runs", self._forget)

    def _judged(self, parts: Parts, status: int | None) -> Report | None:
        """A run that was stopped was judged before: how it died says nothing more."""
        fence = self._fence
        fence.run("copying the recordings", self._bring_home)
        fence.run("describing the run", run_storage.note_end, self.folder, parts.run, status)
        stopped = parts.stalls.report if parts.stalls is not None and parts.stopping is not None else None
        report = stopped or fence.run("judging the run", _diagnosed, self.folder)
        if report is None:
            return None
        file = self.folder / "report.json"
        saved = fence.run("writing the report", _save, report, file)
        return msgspec.structs.replace(report, evidence=str(file)) if saved else report

    def _bring_home(self) -> None:
        run_storage.bring_home(self.recordings, self.folder)
        run_storage.leave_local_disk(self.recordings, self.folder)

    def _forget(self) -> None:
        check_held(self.folder)
        retention.forget_aloud(self.folder.parent, retention.RUN, self.folder, self._teller.say)


def _diagnosed(folder: Path) -> Report:
    check_held(folder)
    # Not before it is needed: numpy starts threads, and takes time that a running training should not wait for.
    from ..diagnose import diagnose

    return diagnose(folder)


def _save(report: Report, file: Path) -> bool:
    write_private(file, encoded(report))
    return True


class Parts:
    """What a watcher consists of once the command runs. Each is asked twice a second; one that fails is left out."""

    def __init__(self, watcher: Watcher, run: Run, pid: int) -> None:
        self.run = run
        self.stopping: Stopping | None = None
        self._pid = pid
        self._started = kernel.stat(pid)
        self._fence = watcher._fence
        self._clock = RunClock(run.started)
        logs = str(watcher.folder / "logs")
        written = LogFolder(logs, run, watcher._settings, run.started, lambda line: speak(line, ""))
        self.told = Logged(watcher._teller, written, self._fence)
        self._written = written
        self._logs = self._fence.run("writing the logs", _logs, watcher, written)
        self.following = Following(watcher.folder, watcher.recordings, pid, self._clock)
        self.stalls = Stalls(watcher.folder, watcher.recordings, pid, watcher._options, self.told.stall, self.told.say)
        self._foresight = Foresight(watcher.folder, self.told.say)
        self._glances = Glances(self.stalls.recorded, self.following.journal)

    def tick(self) -> None:
        run = self._fence.run
        run("following the processes", self._follow)
        run("writing the logs", self._write_logs)
        if self.stopping is not None:
            run("stopping the run", self.stopping.tick)
            return
        run("looking for stalls", self._look_for_stalls)
        run("looking at slow steps", self._glance)
        run("looking ahead", self._look_ahead)
        if self.stalls.wants_stop:
            self.stopping = run("stopping the run", self._stop)

    def _follow(self) -> None:
        self.following.mains = self._glances.mains()
        self.following.tick()

    def _look_for_stalls(self) -> None:
        self.stalls.tick(self._clock.now(), self.following.alive_names())

    def _glance(self) -> None:
        last = self.following.last
        self._glances.tick(self._clock.now(), {seen.pid: seen.waits for seen in last.processes} if last else {})

    def _look_ahead(self) -> None:
        if self.stalls.report is None:
            self._foresight.tick(self._clock.now(), self.stalls.ranks(), begun=self.stalls.recorded.begun())

    def _stop(self) -> Stopping:
        """Only what descends from the command, by pid and start time."""
        started = self._started.started if self._started is not None else 0
        below = _below(self._pid, started)
        self.following.heard(signal.SIGTERM, os.getpid(), 0)
        return Stopping((self._pid, started), {*self.following.descended, *below})

    def _write_logs(self, *, final: bool = False) -> None:
        if self._logs is not None:
            alive = set() if final else self.following.alive()
            self._logs.tick(self.run.started + self._clock.now(), alive, self.following.last, final=final)

    def close(self, status: int | None) -> None:
        run = self._fence.run
        if self.stalls.told:  # it may have gone on, and come to its end, since the last look
            run("looking for stalls", self._look_for_stalls)
        for part, close in (
            ("looking for stalls", self.stalls.close),
            ("looking ahead", self._foresight.close),
            ("looking at slow steps", self._glances.close),
        ):
            run(part, close)
        if self.stopping is not None:
            run("stopping the run", self.stopping.force)
        run("writing the logs", lambda: self._write_logs(final=True))
        if status is not None:
            run("following the processes", self.following.child_ended, status)
        run("following the processes", self.following.finish)
        run("writing the logs", self._written.ended, status, self.run.started + self._clock.now())


def _below(pid: int, started: int) -> list[tuple[int, int]]:
    """By pid and start time. Empty where the command has ended: its pid may be a stranger's, with a family of his."""
    tree = processes.Tree()
    family = [(one, stat) for one in tree.below(pid) if (stat := kernel.stat(one)) is not None]
    seen = [(one, stat.started) for one, stat in family if stat.parent == tree.parent.get(one)]
    return seen if (pid, started) in seen else []


def _logs(watcher: Watcher, written: LogFolder) -> Logs:
    quiet = watcher._settings.quiet
    if quiet and watcher._output is None:
        written.give_up()  # it was said why
    if watcher._output is not None:
        watcher._teller.say(f"Monitor logs with: tail -f {quoted_line([written.main_log, watcher._output])}")
    say: Callable[[Line], None] | None = watcher._teller.line if watcher._output is not None else None
    return Logs(written, str(watcher.recordings), say, node=os.uname().nodename)
