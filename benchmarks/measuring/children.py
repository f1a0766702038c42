"""Starts the measured processes and sees to it that none outlives the benchmark."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

BOOTSTRAP = Path(__file__).resolve().parents[2] / "src" / "unstuck" / "inside" / "bootstrap"
MARK = f"OVERHEAD_BENCHMARK={secrets.token_hex(8)}"


class Failed(Exception):  # noqa: N818
    """A measured process did not end well; the text says why."""


def environment(recordings=None):
    """What every measured process is given: one thread, nothing of ours unless it is to be recorded."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("UNSTUCK", "TRACEML"))}
    path = [entry for entry in kept.pop("PYTHONPATH", "").split(os.pathsep) if entry and entry != str(BOOTSTRAP)]
    if recordings is not None:
        path.insert(0, str(BOOTSTRAP))
        kept["UNSTUCK_RECORDINGS"] = str(recordings)
    if path:
        kept["PYTHONPATH"] = os.pathsep.join(path)
    name, _, value = MARK.partition("=")
    return {**kept, "OMP_NUM_THREADS": "1", name: value}


def run(command, variables, folder, limit=180):
    """Run it to its end in a folder of its own; its output is kept for the case that it fails."""
    output = Path(folder) / "output.txt"
    with output.open("wb") as stream:
        child = subprocess.Popen(
            command, env=variables, cwd=folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end(child)
    if status != 0:
        said = output.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
        how = f"no end after {limit} s" if status is None else f"exit code {status}"
        raise Failed(f"{how}: {said[-1][:200]}")


def end(child):
    """End what is still running of it. Launchers put processes into sessions of their own: those carry our mark."""
    if child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(3)
    deadline = time.monotonic() + 5
    while (left := marked()) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.poll()
        time.sleep(0.05)


def end_alone(child):
    """The same for a process that starts none of its own."""
    if child.poll() is None:
        child.kill()
        child.wait()


def marked():
    """Processes that run with our mark in their environment: started by this benchmark, and by nothing else."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if MARK.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found
