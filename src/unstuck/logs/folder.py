"""The log files of one node's part of a run: opened as they are needed, refused in one clear line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from ..evidence import Run
from ..report import Report
from ..safe_files import make_folder
from ..wording.printable import quoted
from ..wording.text import duration, ending
from . import failures
from .files import ENDING, ERROR, INFO, RUN, SEVERITY, STARTING, WARNING, Line, LogFile, Settings, stamp, written


class LogFolder:
    """`train_<time>.log` for the run, `debug_rank<N>_<time>.log` for each rank."""

    def __init__(self, path: str, run: Run, settings: Settings, at: float, tell: Callable[[str], None]) -> None:
        """`tell` is given one line if no log can be written."""
        self.path = path
        self._tell = tell
        self.settings = settings
        self._run = run
        self._stamp = stamp(at)
        self._files: dict[str, LogFile] = {}
        self._told = self._refused = False
        self._reported: set[str] = set()
        # Nodes of one run share the folder: each writes a main log of its own.
        other = "" if run.host in ("", os.uname().nodename) else f"_{os.uname().nodename}"
        self.main_log = os.path.join(path, f"train_{self._stamp}{other}.log")
        self._ranks: dict[str, None] = {}

    def of_rank(self, rank: int, pid: int | None = None) -> str:
        """With a pid: of one of several main processes that do not know their rank."""
        more = "" if pid is None else f"_pid{pid}"
        return os.path.join(self.path, f"debug_rank{rank}_{self._stamp}{more}.log")

    def output(self) -> str:
        return os.path.join(self.path, f"output_{self._stamp}.log")

    def begin(self) -> None:
        run, settings = self._run, self.settings
        lines = [
            STARTING,
            f"Monitor logs with: tail -f {quoted(self.main_log)}",
            f"run {run.id} on {run.host}, in {run.cwd}",
            f"command: {' '.join(run.command)}",
            f"log level {settings.level}, a line every {settings.every} training batches and every "
            f"{settings.validation_every} validation batches",
        ]
        self.write(self.main_log, [Line(run.started, INFO, RUN, text) for text in lines])

    def everywhere(self, lines: list[Line]) -> None:
        """What concerns the whole run."""
        for path in [self.main_log, *self._ranks]:
            self.write(path, lines)

    def say(self, text: str) -> None:
        """One line that the watcher also says on the console."""
        level, sign = (INFO, "") if text.startswith("the run goes on") else (WARNING, "⚠️ ")
        self.everywhere([Line(time.time(), level, "watcher", f"{sign}{text}")])

    def report(self, report: Report, at: float | None = None) -> None:
        """What was told in full when the run stood still is told in short at its end."""
        lines = failures.found(report, time.time() if at is None else at)
        rules = {one.rule for one in report.findings if one.role == "root"}
        self.everywhere([one for one in lines if one.level != INFO] if rules and rules == self._reported else lines)
        self._reported = rules

    def ended(self, status: int | None, at: float) -> None:
        how = ending(status) if status is not None else "ended"
        level, sign = (ERROR, "❌ ") if status else (INFO, "")
        text = f"{sign}Training {how} after {duration(max(at - self._run.started, 0))}"
        self.everywhere([Line(at, level, RUN, text)])

    def close(self, at: float) -> None:
        self.everywhere([Line(at, INFO, RUN, ENDING)])
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._refused = True

    def write(self, path: str, lines: list[Line]) -> None:
        wanted = [one for one in lines if SEVERITY[one.level] >= SEVERITY[self.settings.level]]
        if not wanted or self._refused:
            return
        try:
            file = self._files.get(path) or self._open(path)
            file.write("".join(written(one) for one in wanted).encode("utf-8", "replace"))
            failed = file.failed
        except OSError as error:
            failed = error
        if failed is not None:
            self._refuse(failed)

    def _open(self, path: str) -> LogFile:
        make_folder(self.path)
        file = self._files[path] = LogFile(path)
        if path != self.main_log:
            self._ranks[path] = None
        return file

    def give_up(self) -> None:
        self._refused = True

    def _refuse(self, error: OSError) -> None:
        """Said once. Where no file can be made, none is tried again; a full disk may have room again."""
        self._refused = not self._files
        if not self._told:
            self._told = True
            self._tell(refusal(self.path, error))


def refusal(folder: str, error: OSError) -> str:
    look = f"ls -la {quoted(folder)}"
    return f"unstuck: no logs in {folder} ({error.strerror}); see `{look}`; the run goes on without them"
