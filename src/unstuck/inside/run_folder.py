"""Which run a process belongs to, and the run's folder. One run, however it was started."""

from __future__ import annotations

import os
import re
import sys
import time

from .format import SAMPLE_TIMES

RUN = "UNSTUCK_RUN"  # identity of the run
FOLDER = "UNSTUCK_FOLDER"  # the run's folder
RECORDINGS = "UNSTUCK_RECORDINGS"  # where recordings are written: on a local disk
RUNS = "UNSTUCK_RUNS"  # under this folder a process without a run makes its own
WATCHER = "UNSTUCK_WATCHER"  # the Python that can run `-m unstuck.watching`
WATCHER_PID = "UNSTUCK_WATCHER_PID"  # the watcher itself, which may look at the run's processes
SWITCH = "UNSTUCK"  # 0 switches everything off


def sample_times() -> bool:
    return os.environ.get(SAMPLE_TIMES, "") not in ("", "0")


def switched_off() -> bool:
    return os.environ.get(SWITCH, "") == "0"


def identity() -> str:
    """What all processes of one run agree on without talking to each other; else something new."""
    known = os.environ.get(RUN)
    if known:
        return safe(known)
    elastic = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    if elastic != "none":
        return safe(f"{elastic}-{os.environ.get('MASTER_ADDR', '')}")
    job = os.environ.get("SLURM_JOB_ID")
    if job:
        return safe(f"slurm-{job}-{os.environ.get('SLURM_STEP_ID', '0')}")
    return time.strftime("%Y%m%d-%H%M%S") + f"-{os.getpid()}"


def safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:80] or "run"


def program_name(arguments: list[str]) -> str:
    """A short name for a command: the script's or module's, else the program's."""
    for argument in arguments:
        if argument.endswith(".py"):
            return safe(os.path.basename(argument)[:-3])
    if "-m" in arguments[:-1]:
        return safe(arguments[arguments.index("-m") + 1].rpartition(".")[2])
    return safe(os.path.basename(arguments[0])) if arguments else "run"


def make(base: str, arguments: list[str]) -> str:
    """Create the folder of this run, or find the one another process of it has made."""
    folder = os.path.join(os.path.abspath(base), f"{program_name(arguments)}-{identity()}")
    os.makedirs(os.path.join(folder, "recordings"), exist_ok=True)
    return folder


def join() -> tuple[str, bool] | None:
    """The folder for this process's recording, and whether the run begins with this process. None: no run."""
    given = os.environ.get(RECORDINGS)
    if given:
        return given, False
    base = os.environ.get(RUNS)
    if not base:
        return None
    folder = make(base, sys.orig_argv[1:] or ["python"])
    os.environ[FOLDER] = folder
    recordings = os.environ[RECORDINGS] = os.path.join(folder, "recordings")
    return recordings, True
