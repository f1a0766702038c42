"""Which run a process belongs to, and the run's folder. One run, however it was started."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import sys
import time
from contextlib import suppress

from ..format import SAMPLE_TIMES

RUN = "UNSTUCK_RUN"  # identity of the run
FOLDER = "UNSTUCK_FOLDER"  # the run's folder
RECORDINGS = "UNSTUCK_RECORDINGS"  # where recordings are written: on a local disk
RUNS = "UNSTUCK_RUNS"  # under this folder a process without a run makes its own
WATCHER = "UNSTUCK_WATCHER"  # the Python that can run `-m unstuck.watching`
WATCHER_PID = "UNSTUCK_WATCHER_PID"  # the watcher itself, which may look at the run's processes
SWITCH = "UNSTUCK"  # 0 switches everything off

MARK = ".unstuck-run"  # in every folder that we made
PRIVATE = 0o700
ENDED, WATCHING = b"ended", b"watching"  # the first word in a lock: then the job's life, pid and start of the watcher
MOST_LAUNCHES = 10_000


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
    """Create the folder of this launch, or find the one that its other ranks and nodes share.

    Processes that belong together agree on an identity, but not every launch of one identity is the same run: a job
    script may start two commands. So the folders of one identity are numbered, and a launch takes the first in which no
    launch of this node has ended or died before it, except in an earlier life of the same job.
    """
    name = f"{program_name(arguments)}-{identity()}"
    base = os.path.abspath(base)
    os.makedirs(base, exist_ok=True)
    for number in range(1, MOST_LAUNCHES):
        folder = os.path.join(base, name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(folder, PRIVATE)
        except FileExistsError:
            if os.path.islink(folder) or is_taken(folder):
                continue
        _check_owners(base, folder)
        mark(folder)
        with suppress(FileExistsError):
            os.mkdir(os.path.join(folder, "recordings"), PRIVATE)
        return folder
    raise FileExistsError(errno.EEXIST, "too many runs of this identity", name)


def mark(folder: str, kind: str = "run") -> None:
    """Say that the folder is ours, and of what. Only folders with this mark are ever removed."""
    path = os.path.join(folder, MARK)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump({"made by": "unstuck", "folder": os.path.basename(folder), "holds": kind}, file)


def kind_of(folder: str) -> str | None:
    """What we made it for. None: it is not ours, or was not made under this name: somebody's copy of a run is his."""
    try:
        if os.path.islink(folder):
            return None
        fd = os.open(os.path.join(folder, MARK), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            about = json.loads(file.read(4096))
    except (OSError, ValueError, RecursionError):
        return None
    ours = isinstance(about, dict) and about.get("folder") == os.path.basename(folder)
    return str(about.get("holds")) if ours else None


def lock_name(node: str) -> str:
    return f"watch-{node}.lock"


def life() -> int:
    """How often Slurm has put this job back into its queue and started it again."""
    count = os.environ.get("SLURM_RESTART_COUNT", "")
    return int(count) if count.isdigit() else 0


def is_taken(folder: str) -> bool:
    """A watcher of this node has been here, in this life of the job, and is gone: that was another launch."""
    try:
        fd = os.open(os.path.join(folder, lock_name(os.uname().nodename)), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        words = os.read(fd, 100).split()
        if len(words) < 2 or words[1] != str(life()).encode():
            return False
        if words[0] == ENDED:
            return True
        return not is_held(fd, words)
    finally:
        os.close(fd)


def is_held(fd: int, words: list[bytes]) -> bool:
    """Whether the watcher that holds this lock lives. Where files cannot be locked, its pid and start time tell."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return len(words) > 3 and process_start(int(words[2])) == int(words[3])
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def process_start(pid: int) -> int | None:
    """When a process was started, in ticks of the machine: with its pid, who it is. None: there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _check_owners(base: str, folder: str) -> None:
    """Nobody else may be able to put something of his in place of what we write: a link to a file of ours, say."""
    above, own = os.stat(base), os.stat(folder)
    if not {above.st_uid, own.st_uid} <= {0, os.geteuid()} or own.st_uid != os.geteuid():
        mapped = _owner_of_what_we_make(base)
        for path, owner in ((folder, own.st_uid), (base, above.st_uid)):
            if owner != mapped and (owner or path == folder):
                raise PermissionError(errno.EPERM, f"{path} belongs to user {owner}, who could replace what is written")
    if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, f"everybody may write into {base}, and could replace what is written")


def _owner_of_what_we_make(base: str) -> int:
    """Not always this user: a network file system may map root, or everybody, to another one."""
    path = os.path.join(base, f".{os.getpid()}-{time.monotonic_ns()}")
    os.mkdir(path, PRIVATE)
    try:
        return os.stat(path).st_uid
    finally:
        os.rmdir(path)


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
