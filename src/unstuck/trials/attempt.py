"""One trial: a recorded child process that does one thing with the user's loader, within limits."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import UserError
from ..inside.core import run_folder
from ..inside.redaction import redacted_values
from ..logs.files import Line, Settings
from ..report import Report
from ..retention import TRIALS, forget_aloud, remove, remove_recordings
from ..safe_files import PRIVATE_FOLDER, append_private, write_private
from ..watching.handles import STALLED
from ..watching.recorded_run import run_recorded
from ..watching.stalls import ALWAYS, Options
from ..wording.secrets import without_secrets
from .cleanup import below, detached, end, hold, sweep, uninterrupted
from .memory import Used, at_most, shm_used, used

PRIVATE = "arguments.json"  # is there until the child has read it
TRIAL = Path(__file__).parent / "child" / "trial.py"
EVERY = 0.05  # seconds between two looks at it
MEMORY_EVERY = 0.25  # a look costs 5 to 12 ms a process, which a measurement of throughput would notice
LIGHTLY_EVERY = 1.0
HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"


class Limits(NamedTuple):
    """What one trial may take."""

    seconds: float = 60.0
    memory: int | None = None  # bytes of all its processes together
    stall: float = 30.0  # seconds without any progress after which it is ended without a known cause, too
    lightly: bool = False  # throughput is measured: a close look at memory only where it may be over the limit


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
        """All that was asked for. How the interpreter ends afterwards is another matter: threads can abort it there."""
        return bool(self.facts.get("done")) and self.ended == "itself"


class Silent:
    """Whoever asked reads the report."""

    def stall(self, report: Report, folder: Path) -> None: ...
    def say(self, line: str) -> None: ...
    def end(self, report: Report, folder: Path) -> None: ...
    def line(self, line: Line) -> None: ...


def interpreter(wanted: str | None) -> str:
    """As asked; else the active environment's, our own, or the first on the path: the first that has torch."""
    if wanted:
        if shutil.which(wanted) is None:
            raise UserError(f"there is no Python {wanted}", "--python names an interpreter, such as .venv/bin/python")
        return wanted
    if importlib.util.find_spec("torch") is not None and "VIRTUAL_ENV" not in os.environ:
        return sys.executable
    active = os.path.join(os.environ.get("VIRTUAL_ENV", ""), "bin", "python")
    for one in (active, sys.executable, shutil.which("python3") or "", shutil.which("python") or ""):
        if one and shutil.which(one) and subprocess.run([one, "-c", HAS_TORCH], check=False).returncode == 0:
            return one
    raise UserError("no Python here has torch", "--python names the interpreter that your training runs with")


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
    try:
        begin(work.folder)
        if run_folder.kind_of(str(home)) is not None:
            remove(home)  # one of the same name before: recordings must not mix
        home.mkdir(PRIVATE_FOLDER, exist_ok=True)
        run_folder.mark(str(home))
    except OSError as error:
        what = f"no recording in {work.folder.parent} ({error.strerror})"
        raise UserError(what, "--run-dir DIR names another place") from error
    request = home / "request.json"
    facts = home / "facts.json"
    asked = {"what": what, "target": work.target, "options": options, "facts": str(facts)}
    secret = home / PRIVATE
    _write_request(request, secret, asked, work.kwargs)
    shm_before, began = shm_used(), time.monotonic()
    with uninterrupted() as interruptible:
        pid = _started([work.python, str(TRIAL), str(request)], work.folder, name, limits)
        try:
            with interruptible():
                ended, peak, report = _followed(pid, home, limits, shm_before, began, tick)
        finally:
            left = end(pid, home)
            code = _reaped(pid)
            sweep(left)
            secret.unlink(missing_ok=True)
    ended = "stall" if code == STALLED and ended == "itself" else ended
    seen = _clean(facts)
    if "refused" in seen:
        raise UserError(seen["refused"]["what"], seen["refused"]["do"])
    run = _json(home / "run.json")
    if not run:
        raise UserError(f"the trial {name!r} could not be started", f"see {home / 'watcher.log'}")
    return Outcome(home, run.get("status"), ended, time.monotonic() - began, peak, seen, report or _report(home))


def begin(folder: Path) -> None:
    """A folder for the trials of one command, made once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(PRIVATE_FOLDER)
    except FileExistsError:
        return
    run_folder.mark(str(folder), TRIALS)


def forget(folder: Path, passed: list[Path], say: Callable[[str], None]) -> None:
    """Recordings of what passed: their evidence is in the reports. And the oldest trials beyond the limit, whole."""
    for trial in passed:
        remove_recordings(trial)
    forget_aloud(folder.parent, TRIALS, folder, say)


def _write_request(request: Path, secret: Path, asked: dict[str, Any], kwargs: dict[str, Any]) -> None:
    """Arguments that hold a secret go by a file of their own, which the child removes as soon as it has read it."""
    shown = redacted_values(kwargs)
    if shown == kwargs:
        asked = {**asked, "kwargs": kwargs}
    else:
        asked = {**asked, "kwargs": shown, "secret": str(secret)}
        write_private(secret, json.dumps(kwargs).encode())
    write_private(request, json.dumps(asked).encode())


def _clean(facts: Path) -> dict[str, Any]:
    """What the child has seen; what it has failed with may hold secrets, which must not stay on the disk."""
    seen = _json(facts)
    clean = without_secrets(seen)
    if clean != seen:
        write_private(facts, json.dumps(clean).encode())
    return clean


def _started(command: list[str], base: Path, name: str, limits: Limits) -> int:
    """A watcher of its own, in a session of its own: what it is sent does not reach us, nor the other way round."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code, home = 70, base / f"trial-{run_folder.safe(name)}"
    try:
        detached()
        out = append_private(home / "watcher.log")
        null = os.open(os.devnull, os.O_RDONLY)
        for source, stream in ((null, 0), (out, 1), (out, 2)):
            os.dup2(source, stream)
        os.environ[run_folder.RUN] = name
        os.environ.pop(run_folder.SWITCH, None)
        options = Options(stop=ALWAYS, after=limits.stall)
        code = run_recorded(command, base, Silent(), options, Settings(quiet=True), apart=False)
    finally:
        sweep(end(os.getpid(), home))  # whoever has asked may have been killed: nobody else would
        os._exit(code)


def _followed(
    pid: int, home: Path, limits: Limits, shm_before: int, began: float, tick: Callable[[float], None]
) -> tuple[str, Used, Report | None]:
    """Until it ends, or has to be ended: then it is judged first, for being killed would be all there is to see."""
    peak, looked = Used(0, 0), 0.0
    while not _gone(pid):
        now = time.monotonic()
        if now - looked >= (LIGHTLY_EVERY if limits.lightly else MEMORY_EVERY):
            looked = now
            pids = below(pid)[1:]
            if not limits.lightly or (limits.memory is not None and at_most(pids, shm_before) > limits.memory):
                peak = max(peak, used(pids, shm_before), key=lambda one: one.total)
        over = "time" if now - began > limits.seconds else ""
        over = "memory" if limits.memory is not None and peak.total > limits.memory else over
        if over == "memory":
            hold(pid)
        if over:
            return over, peak, _judged(home)
        tick(now - began)
        time.sleep(EVERY)
    return "itself", peak, None


def _judged(home: Path) -> Report | None:
    from ..diagnose import diagnose

    try:
        return diagnose(home)
    except (OSError, UserError):
        return None


def _gone(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _reaped(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _report(home: Path) -> Report | None:
    try:
        return msgspec.json.decode((home / "report.json").read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError):
        return None
