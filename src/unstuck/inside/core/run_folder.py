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
LOCK_SIZE = 64  # bytes: written over as a whole
TRIES, APART = 10, 0.02  # somebody who only asks whether a lock is held has it for a moment
# The first word in a lock: then the job's life, and pid and start of the watcher, once there is one.
ENDED, WATCHING, CLAIMED = b"ended", b"watching", b"claimed"
MOST_LAUNCHES = 10_000
MANY = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")  # how many ranks there are, as launchers tell each of them
INTO = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # a folder, to reach what is in it
NEVER = os.O_NOFOLLOW | os.O_CLOEXEC  # through a link; into a program that is started


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


def belongs_to_others() -> bool:
    """Whether launches of this identity that run on one node at the same time are one run: ranks, and restarts of them.

    A Slurm job without a step says nothing of the kind: its script, or a terminal in it, may run two trainings at once.
    """
    if os.environ.get(RUN) or os.environ.get("TORCHELASTIC_RUN_ID", "none") != "none":
        return True
    if os.environ.get("SLURM_STEP_ID") and os.environ.get("SLURM_STEP_NUM_TASKS") != "1":
        return True
    return any(size.isdigit() and int(size) > 1 for size in (os.environ.get(name, "") for name in MANY))


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
    launch of this node has ended or died before it, except in an earlier life of the same job. One that belongs to no
    others takes the first in which no launch of this node is, or was.
    """
    name = f"{program_name(arguments)}-{identity()}"
    os.makedirs(base, exist_ok=True)
    base = os.path.realpath(base)  # from here on, a link in this path was put there by somebody else
    above = opened(base)
    try:
        for number in range(1, MOST_LAUNCHES):
            one = name if number == 1 else f"{name}-{number}"
            if _took(base, above, one):
                return os.path.join(base, one)
    finally:
        os.close(above)
    raise FileExistsError(errno.EEXIST, "too many runs of this identity", name)


def _took(base: str, above: int, name: str) -> bool:
    """Make this folder, or join those who have it. False: it is that of another launch."""
    with suppress(FileExistsError):
        os.mkdir(name, PRIVATE, dir_fd=above)
    try:
        own = os.open(name, INTO, dir_fd=above)
    except (NotADirectoryError, FileNotFoundError):  # a link, a file, or retention has just removed it
        return False
    try:
        if is_taken(own):
            return False
        _check_owners(base, above, os.path.join(base, name), own)
        if not belongs_to_others() and not _claimed(own):
            return False
        mark_in(own, name)
        with suppress(FileExistsError):
            os.mkdir("recordings", PRIVATE, dir_fd=own)
        return True
    finally:
        os.close(own)


def opened(path: str) -> int:
    """A descriptor of a folder by its path, in which there may be no link: `realpath` has resolved those there were."""
    fd = os.open("/", INTO)
    try:
        for part in filter(None, path.split("/")):
            below = os.open(part, INTO, dir_fd=fd)
            os.close(fd)
            fd = below
    except BaseException:
        os.close(fd)
        raise
    return fd


def opened_run(folder: str) -> int:
    """A descriptor of a run's folder, as `make` has given it. Raises OSError if another one was put in its place."""
    fd = opened(folder)
    try:
        _check_run(folder, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_run(folder: str, own: int) -> None:
    owner = os.fstat(own).st_uid
    if owner != os.geteuid() and owner != _owner_of_what_we_make(own):
        raise PermissionError(errno.EPERM, f"{folder} belongs to user {owner}, who could replace what is written")
    if _kind_in(own, os.path.basename(folder)) is None:
        raise PermissionError(errno.EPERM, f"{folder} is not the folder that was made for the run")


def mark(folder: str, kind: str = "run") -> None:
    """Say that the folder is ours, and of what. Only folders with this mark are ever removed."""
    fd = os.open(folder, INTO)
    try:
        mark_in(fd, os.path.basename(folder), kind)
    finally:
        os.close(fd)


def mark_in(own: int, name: str, kind: str = "run") -> None:
    try:
        fd = os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NEVER, 0o600, dir_fd=own)
    except FileExistsError:
        return
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump({"made by": "unstuck", "folder": name, "holds": kind}, file)


def kind_of(folder: str) -> str | None:
    """What we made it for. None: it is not ours, or was not made under this name: somebody's copy of a run is his."""
    try:
        fd = os.open(folder, INTO)
    except OSError:
        return None
    try:
        return _kind_in(fd, os.path.basename(folder))
    finally:
        os.close(fd)


def _kind_in(own: int, name: str) -> str | None:
    try:
        fd = os.open(MARK, os.O_RDONLY | os.O_NONBLOCK | NEVER, dir_fd=own)
        with os.fdopen(fd, "rb") as file:
            about = json.loads(file.read(4096))
    except (OSError, ValueError, RecursionError):
        return None
    ours = isinstance(about, dict) and about.get("folder") == name
    return str(about.get("holds")) if ours else None


def lock_name(node: str) -> str:
    return f"watch-{node}.lock"


def life() -> int:
    """How often Slurm has put this job back into its queue and started it again."""
    count = os.environ.get("SLURM_RESTART_COUNT", "")
    return int(count) if count.isdigit() else 0


def is_taken(own: int) -> bool:
    """A watcher of this node has been here, in this life of the job, and is gone: that was another launch."""
    try:
        fd = os.open(lock_name(os.uname().nodename), os.O_RDONLY | NEVER, dir_fd=own)
    except OSError:
        return False
    try:
        words = os.read(fd, 100).split()
        if len(words) < 2 or words[1] != str(life()).encode():
            return False
        if words[0] in (ENDED, CLAIMED):  # claimed: by a launch that belongs to no others
            return True
        return not is_held(fd, words)
    finally:
        os.close(fd)


def _claimed(own: int) -> bool:
    """Have it for this launch alone, on this node: before its watcher has the lock, another may be on its way here."""
    name, claim = lock_name(os.uname().nodename), CLAIMED + b" " + str(life()).encode()
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | NEVER, 0o600, dir_fd=own)
    except FileExistsError:
        fd = os.open(name, os.O_RDWR | os.O_NONBLOCK | NEVER, dir_fd=own)
        try:
            return _claimed_again(fd, claim)
        finally:
            os.close(fd)
    os.write(fd, claim)
    os.close(fd)
    return True


def _claimed_again(fd: int, claim: bytes) -> bool:
    """The launch of an earlier life of this job had it. Two of this life may want it now."""
    try:
        if not locked(fd):
            return False
    except OSError:  # nothing can be locked here
        pass
    words = os.pread(fd, 100, 0).split()
    if len(words) < 2 or words[1] == claim.split()[1]:
        return False
    os.pwrite(fd, claim.ljust(LOCK_SIZE - 1) + b"\n", 0)
    return True


def locked(fd: int) -> bool:
    """Have the lock until the descriptor is closed. False: somebody has it. Raises OSError where there are no locks."""
    for _ in range(TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(APART)
        else:
            return True
    return False


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


def _check_owners(base: str, above: int, folder: str, own: int) -> None:
    """Nobody else may be able to put something of his in place of what we write: a link to a file of ours, say.

    Who may write to folders further up can move this one away. What is written goes to where it is then: it is held.
    """
    whose, mode, maker = os.fstat(above).st_uid, os.fstat(above).st_mode, os.fstat(own).st_uid
    if not {whose, maker} <= {0, os.geteuid()} or maker != os.geteuid():
        mapped = _owner_of_what_we_make(above)
        for path, owner in ((folder, maker), (base, whose)):
            if owner != mapped and (owner or path == folder):
                raise PermissionError(errno.EPERM, f"{path} belongs to user {owner}, who could replace what is written")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, f"everybody may write into {base}, and could replace what is written")


def _owner_of_what_we_make(above: int) -> int:
    """Not always this user: a network file system may map root, or everybody, to another one."""
    name = f".{os.getpid()}-{time.monotonic_ns()}"
    os.mkdir(name, PRIVATE, dir_fd=above)
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=False).st_uid
    finally:
        os.rmdir(name, dir_fd=above)


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
