"""Makes run folders: where they lie, where their recordings are written, which watcher of a node has them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path

import msgspec

from ..errors import UserError
from ..evidence import Run
from ..inside.core import run_folder
from ..inside.format import MAIN_LAYOUT
from ..inside.redaction import redacted_arguments
from ..probes.machine import file_system
from ..safe_files import append_private, create_private, hold, read_plain, remove, write_private

# File systems on which reserved space is there when it is written to. Elsewhere a full disk would kill with SIGBUS.
RESERVING = {"ext2", "ext3", "ext4", "xfs", "jfs", "f2fs", "tmpfs", "overlay"}
TRIES, APART = 10, 0.02  # somebody who only asks whether a lock is held has it for a moment
SCHEDULERS = {"SLURM_JOB_ID": "Slurm", "SLURM_JOB_END_TIME": "Slurm", "KUBERNETES_SERVICE_HOST": "Kubernetes"}
LONGEST_TIME = 12  # digits


def make(base: Path, command: list[str]) -> tuple[Path, Path]:
    """A new run's folder and the folder for its recordings, or a clear word on why there can be none."""
    try:
        folder = Path(run_folder.make(str(base), command))
        hold_run(folder)
        recordings = folder / "recordings"
        if file_system(folder) not in RESERVING:
            recordings = _on_a_local_disk(folder)
        _try_to_reserve(recordings)
    except OSError as error:
        remedy = "the command runs unrecorded; choose another folder with --run-dir DIR"
        raise UserError(f"no recording in {base} ({error.strerror})", remedy) from error
    return folder, recordings


def hold_run(folder: Path) -> None:
    """Nobody who may write to folders above can send elsewhere what this process writes into the run's folder."""
    hold(folder, run_folder.opened_run(str(folder)))


def discard(folder: Path, recordings: Path) -> None:
    """The command could not be started: the folder that was made for it goes, unless others of its run use it."""
    for path in (*([recordings] if recordings.parent != folder else []), folder / "recordings"):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    if not (folder / "recordings").exists():
        node = os.uname().nodename
        alone = () if run_folder.belongs_to_others() else (run_folder.lock_name(node),)
        for name in (run_folder.MARK, f"recordings-{node}.at", *alone):
            with contextlib.suppress(OSError):
                remove(folder / name)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def describe(folder: Path, command: list[str], pid: int | None) -> Run:
    """Write run.json. Nodes of one run share it: the first one writes, and its next attempt writes its pid."""
    run = Run(
        id=text(folder.name),
        folder=text(folder),
        command=[text(word) for word in redacted_arguments(command)],
        started=time.time(),
        host=os.uname().nodename,
        cwd=_working_folder(),
        pid=pid,
        scheduler=_scheduler(),
        time_limit=_time_limit(),
    )
    file = folder / "run.json"
    try:
        fd = create_private(file)
    except FileExistsError:
        return _described_before(file, run)
    with os.fdopen(fd, "wb") as opened:
        opened.write(_encoded(run))
    return run


def note_end(folder: Path, run: Run, status: int | None) -> None:
    """Write how the command ended. Only the node that began the run knows its status."""
    if run.host == os.uname().nodename:
        write_private(folder / "run.json", _encoded(msgspec.structs.replace(run, status=status)))


def _described_before(file: Path, run: Run) -> Run:
    try:
        first = msgspec.json.decode(read_plain(file), type=Run)
    except (OSError, msgspec.DecodeError):  # another node is writing it at this moment
        return run
    if first.host != run.host or first.pid == run.pid:
        return first
    again = msgspec.structs.replace(
        first, pid=run.pid, command=run.command, cwd=run.cwd, status=None, time_limit=run.time_limit
    )
    write_private(file, _encoded(again))
    return again


def _scheduler() -> str:
    return next((name for variable, name in SCHEDULERS.items() if os.environ.get(variable)), "")


def _time_limit() -> float | None:
    """When Slurm ends the job; newer ones tell."""
    value = os.environ.get("SLURM_JOB_END_TIME", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) <= LONGEST_TIME else None


def _encoded(run: Run) -> bytes:
    return msgspec.json.format(msgspec.json.encode(run), indent=1)


def text(path: str | Path) -> str:
    """As it can be written into JSON: a name on this system may be no UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _working_folder() -> str:
    try:
        return text(Path.cwd())
    except OSError:  # it has been removed
        return ""


class Lock:
    """The word of this node's one watcher, held for as long as it lives."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._write(run_folder.WATCHING)

    def _write(self, state: bytes) -> None:
        pid = os.getpid()
        words = [state, *(str(word).encode() for word in (run_folder.life(), pid, run_folder.process_start(pid) or 0))]
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, b" ".join(words).ljust(run_folder.LOCK_SIZE - 1) + b"\n", 0)

    def say_over(self) -> None:
        """From now on, what is launched on this node is another run. The lock is held until this one is judged."""
        self._write(run_folder.ENDED)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def elect(folder: Path) -> Lock | None:
    """The lock of this node's one watcher. None: another has it. Where nothing can be locked, watching goes on."""
    path = folder / run_folder.lock_name(os.uname().nodename)
    try:
        fd = append_private(path, flags=os.O_RDWR)
    except OSError:
        return Lock(None)
    try:
        if run_folder.locked(fd):
            return Lock(fd)
    except OSError:  # Lustre without -o flock, NFS without lockd: the owner that is written down has to do
        if not run_folder.is_held(fd, os.pread(fd, run_folder.LOCK_SIZE, 0).split()):
            return Lock(fd)
    os.close(fd)
    return None


def bring_home(recordings: Path, folder: Path) -> None:
    """Copy recordings that lie on a local disk into the run folder. Readers never see half a copy."""
    home = folder / "recordings"
    for path in recordings.iterdir() if recordings != home else ():
        if path.suffix in (".rec", ".stacks", ".flight") or path.name.startswith("unrecorded-"):
            write_private(home / path.name, read_plain(path))


def _on_a_local_disk(folder: Path) -> Path:
    """Where space cannot be reserved: one folder for all launchers of this node.

    The run folder says where that is, for whoever looks before it is brought home.
    """
    note = folder / f"recordings-{os.uname().nodename}.at"
    for _ in range(TRIES):
        try:
            fd = create_private(note)
        except FileExistsError:
            known = Path(os.fsdecode(read_plain(note, largest=4096)))
            if run_folder.kind_of(str(known)) is not None:
                return known
            time.sleep(APART)  # it is being written at this moment
            continue
        with os.fdopen(fd, "wb") as file:
            recordings = Path(tempfile.mkdtemp(prefix="unstuck-"))
            run_folder.mark(str(recordings), "recordings")
            file.write(os.fsencode(recordings))
        return recordings
    write_private(note, b"")  # the machine was started anew, and its temporary files are gone
    remove(note)
    return _on_a_local_disk(folder)


def leave_local_disk(recordings: Path, folder: Path) -> None:
    """Everything is home: the local folder goes."""
    if recordings.parent != folder:
        shutil.rmtree(recordings, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            remove(folder / f"recordings-{os.uname().nodename}.at")


def _try_to_reserve(recordings: Path) -> None:
    """What a recorded process will do, done once before it matters."""
    path = recordings / f".reserve-{os.getpid()}"
    fd = create_private(path)
    try:
        os.posix_fallocate(fd, 0, MAIN_LAYOUT.size())
    finally:
        os.close(fd)
        remove(path)
