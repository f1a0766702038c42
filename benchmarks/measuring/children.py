"""Starts the measured processes and sees to it that none outlives the benchmark."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

BOOTSTRAP = Path(__file__).resolve().parents[2] / "src" / "unstuck" / "inside" / "bootstrap"
MARK = "OVERHEAD_BENCHMARK"


class Failed(Exception):  # noqa: N818
    """A measured process did not end well; the text says why."""


def environment(recordings=None):
    """What every measured process is given: one thread, nothing of ours unless it is to be recorded."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UNSTUCK", "TRACEML"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # a start-up that compiles everything is nobody's
    path = [entry for entry in kept.pop("PYTHONPATH", "").split(os.pathsep) if entry and entry != str(BOOTSTRAP)]
    if recordings is not None:
        path.insert(0, str(BOOTSTRAP))
        kept["UNSTUCK_RECORDINGS"] = str(recordings)
    if path:
        kept["PYTHONPATH"] = os.pathsep.join(path)
    return {**kept, "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def running(command, variables, folder):
    """A process for the length of a `with`. Its output goes to a file, for the case that it fails."""
    mark = secrets.token_hex(8)
    with Path(folder, "output.txt").open("wb") as stream:
        child = subprocess.Popen(
            command, env={**variables, MARK: mark}, cwd=folder, stdin=subprocess.DEVNULL, stdout=stream,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            yield child
        finally:
            _end(child, f"{MARK}={mark}".encode())


@contextlib.contextmanager
def busy(count):
    """So many processes that take all the CPU time they get, for the length of a `with`, or of this process."""
    loop = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"
    started = [subprocess.Popen([sys.executable, "-c", loop], start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


def check(child, folder):
    """Raise Failed if it has ended badly."""
    status = child.poll()
    if status:
        said = Path(folder, "output.txt").read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        raise Failed(f"exit code {status}: {said[-1][:200]}")


def run(command, variables, folder, limit=180):
    """Run it to its end."""
    with running(command, variables, folder) as child:
        try:
            child.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"no end after {limit} s") from None
        check(child, folder)


def _end(child, mark):
    """End what still runs of it. Launchers put processes into sessions of their own: they all carry its mark."""
    deadline = time.monotonic() + 5
    while (left := _marked(mark)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.poll()
        time.sleep(0.05)
    child.wait()


def _marked(mark):
    """Processes with this mark in their environment: started by this benchmark, and by nothing else."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found
