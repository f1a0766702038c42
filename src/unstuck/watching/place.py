"""Makes and keeps run folders: where they lie, where their recordings are written, how many stay."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO

import msgspec

from ..errors import UserError
from ..inside import run_folder
from ..inside.format import MAIN_LAYOUT
from ..model.evidence import Run
from ..probes.redaction import redact

KEPT_RUNS = 50
# File systems on which reserved space is there when it is written to. Elsewhere a full disk would kill with SIGBUS.
RESERVING = {"ext2", "ext3", "ext4", "xfs", "jfs", "f2fs", "tmpfs", "overlay"}


def make(base: Path, command: list[str]) -> tuple[Path, Path]:
    """A new run's folder and the folder for its recordings, or a clear word on why there can be none."""
    try:
        folder = Path(run_folder.make(str(base), command))
        recordings = folder / "recordings"
        if file_system(folder) not in RESERVING:
            recordings = Path(tempfile.mkdtemp(prefix="unstuck-"))
        _try_to_reserve(recordings)
    except OSError as error:
        remedy = "the command runs unrecorded; --run-dir DIR names another place"
        raise UserError(f"no recording in {base} ({error.strerror})", remedy) from error
    return folder, recordings


def describe(folder: Path, command: list[str], pid: int | None) -> Run:
    """Write run.json. Nodes of one run share it: the first one writes."""
    run = Run(
        id=folder.name,
        folder=str(folder),
        command=redact(command),
        started=time.time(),
        host=os.uname().nodename,
        cwd=str(Path.cwd()),
        pid=pid,
    )
    try:
        with (folder / "run.json").open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(run), indent=1))
    except FileExistsError:
        return msgspec.json.decode((folder / "run.json").read_bytes(), type=Run)
    return run


def elect(folder: Path) -> IO[bytes] | None:
    """The lock of this node's one watcher, held for as long as the file stays open. None: somebody has it."""
    lock = (folder / f"watch-{os.uname().nodename}.lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def bring_home(recordings: Path, folder: Path) -> None:
    """Copy recordings that lie on a local disk into the run folder. Readers never see half a copy."""
    home = folder / "recordings"
    for path in recordings.iterdir() if recordings != home else ():
        copy = home / f".{path.name}"
        shutil.copyfile(path, copy)
        copy.replace(home / path.name)


def forget_old_runs(base: Path, keep: int = KEPT_RUNS) -> None:
    """Remove the oldest runs beyond the limit; only folders that are runs, and none that is being watched."""
    runs = sorted(base.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    for path in runs[: max(len(runs) - keep, 0)]:
        lock = elect(path.parent)
        if lock is not None:
            lock.close()
            shutil.rmtree(path.parent, ignore_errors=True)


def file_system(folder: Path) -> str:
    """Type of the file system a folder lies on, by the longest mount point above it."""
    best, kind = "", ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4]
        inside = point == "/" or folder == Path(point) or Path(point) in folder.parents
        if inside and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind


def _try_to_reserve(recordings: Path) -> None:
    """What a recorded process will do, done once before it matters."""
    path = recordings / f".reserve-{os.getpid()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, MAIN_LAYOUT.size())
    finally:
        os.close(fd)
        path.unlink()
