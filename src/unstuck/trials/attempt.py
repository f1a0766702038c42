"""One trial: a recorded child process that does one thing with the user's loader, within limits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import UserError
from ..inside import run_folder
from ..logs.line import Line
from ..logs.settings import Settings
from ..model.report import Report
from ..watching.running import run_recorded
from ..watching.stalls import Options
from ..watching.stopping import EXIT_CODE as STALLED
from .ending import below, end, listed, send, sweep
from .memory import Used, shm_used, used

TRIAL = Path(__file__).parent / "child" / "trial.py"
EVERY = 0.05  # seconds between two looks at it
MEMORY_EVERY = 0.25  # a look costs 5 ms a process, which a measurement of throughput would notice
GRACE = 3.0  # seconds to end by itself after it was asked to


class Limits(NamedTuple):
    """What one trial may take."""

    seconds: float = 60.0
    memory: int | None = None  # bytes of all its processes together
    stall: float = 30.0  # seconds without any progress after which it is ended without a known cause, too


class Work(NamedTuple):
    """What is to be done, where, and by whom."""

    target: str
    kwargs: dict[str, Any]
    python: str
    folder: Path  # of the whole command; every trial has its own below


class Outcome(NamedTuple):
    """What came of it."""

    folder: Path
    status: int | None  # as `Exit.status`
    ended: str  # itself, time, memory, stall
    seconds: float
    peak: Used
    facts: dict[str, Any]
    report: Report | None

    @property
    def done(self) -> bool:
        return bool(self.facts.get("done")) and self.status == 0


class Silent:
    """Whoever asked reads the report."""

    def stall(self, report: Report, folder: Path) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self, report: Report, folder: Path) -> None: ...
    def line(self, line: Line) -> None: ...


def prepare() -> None:
    """Before the first trial: what judging needs is imported once, and without a thread, because we fork."""
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from .. import diagnose  # noqa: F401

    if before is None:
        del os.environ["OPENBLAS_NUM_THREADS"]
    else:
        os.environ["OPENBLAS_NUM_THREADS"] = before


def attempt(
    what: str, name: str, work: Work, options: dict[str, Any], limits: Limits, tick: Callable[[float], None]
) -> Outcome:
    """Run `what` of the child's rungs under `name`. Raises UserError where the target cannot be used."""
    home = work.folder.absolute() / f"trial-{run_folder.safe(name)}"
    shutil.rmtree(home, ignore_errors=True)  # one of the same name before: recordings must not mix
    home.mkdir(parents=True)
    request = home / "request.json"
    facts = home / "facts.json"
    asked = {"what": what, "target": work.target, "kwargs": work.kwargs, "options": options, "facts": str(facts)}
    request.write_text(json.dumps(asked))
    left_before, shm_before, began = listed(), shm_used(), time.monotonic()
    pid = _started([work.python, str(TRIAL), str(request)], work.folder, name, limits)
    try:
        ended, peak = _followed(pid, home, limits, shm_before, began, tick)
    finally:
        end(pid, home)
        code = _reaped(pid)
        sweep(left_before)
    ended = "stall" if code == STALLED and ended == "itself" else ended
    outcome = Outcome(home, _status(home), ended, time.monotonic() - began, peak, _facts(facts), _report(home))
    if "refused" in outcome.facts:
        raise UserError(outcome.facts["refused"]["what"], outcome.facts["refused"]["do"])
    return outcome


def _started(command: list[str], base: Path, name: str, limits: Limits) -> int:
    """A watcher of its own, in a session of its own: what it is sent does not reach us, nor the other way round."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        out = os.open(base / f"trial-{run_folder.safe(name)}" / "watcher.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, stream in ((null, 0), (out, 1), (out, 2)):
            os.dup2(source, stream)
        os.environ[run_folder.RUN] = name
        os.environ.pop(run_folder.SWITCH, None)
        options = Options(stop=True, after=limits.stall)
        code = run_recorded(command, base, Silent(), options, Settings(quiet=True))
    finally:
        os._exit(code)


def _followed(
    pid: int, home: Path, limits: Limits, shm_before: int, began: float, tick: Callable[[float], None]
) -> tuple[str, Used]:
    """Until it ends, or has to be ended. The most memory it took, private and shared, each at its own time."""
    peak, looked, asked = Used(0, 0), 0.0, 0.0
    ended = "itself"
    while not _gone(pid):
        now = time.monotonic()
        if now - looked >= MEMORY_EVERY:
            looked = now
            seen = used(below(pid)[1:], shm_before)
            peak = max(peak, seen, key=lambda one: one.total)
        over = "time" if now - began > limits.seconds else ""
        over = "memory" if limits.memory is not None and peak.total > limits.memory else over
        if over and ended == "itself":
            ended, asked = over, now
            _ask_to_end(pid, at_once=over == "memory")
        if asked and now - asked > GRACE:
            end(pid, home)
        tick(now - began)
        time.sleep(EVERY)
    return ended, peak


def _ask_to_end(pid: int, *, at_once: bool) -> None:
    """Its watcher judges what was there; memory that runs out leaves no time to end politely."""
    for one in below(pid)[1:]:
        send(one, signal.SIGKILL if at_once else signal.SIGTERM)


def _gone(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _reaped(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _facts(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _status(home: Path) -> int | None:
    try:
        status: int | None = json.loads((home / "run.json").read_text()).get("status")
    except (OSError, ValueError):
        return None
    return status


def _report(home: Path) -> Report | None:
    try:
        return msgspec.json.decode((home / "report.json").read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError):
        return None
