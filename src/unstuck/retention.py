"""Removes old runs, trials and checks: only folders that carry our mark, only what we wrote in them, none that lives.

Anything that looks alike is left alone: other programs keep folders with a `run.json`, studies have a `trial-0001`, and
people copy a run to keep it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .inside.core.run_folder import ENDED, MARK, is_held, kind_of, process_start
from .inside.format import recording_name

RUN, TRIALS, CHECK = "run", "trials", "check"
KEPT = {RUN: 50, TRIALS: 10, CHECK: 10}  # a run is worth more than a trial or a check, which can be made again
SINGULAR = {RUN: "run", TRIALS: "folder of trials", CHECK: "check"}
PLURAL = {RUN: "runs", TRIALS: "folders of trials", CHECK: "checks"}
NAMED = 3  # of those removed, by name
SILENT = 7 * 24 * 3600.0  # seconds after which a run of another node that never said its end is taken for over
# All that we ever write, by folder. Whatever else lies there is somebody's, and stays.
OURS = {
    "": (
        "run.json", "report.json", "errors.log", "watch-*.lock", "watch-*.jsonl", "recordings-*.at", "*.half",
        "request.json", "arguments.json", "facts.json", "watcher.log", "ask-*.json", "answer-*.json", "*.new",
        "asked.json", "checked.jsonl",
    ),
    "recordings": ("*.rec", "*.stacks", "*.flight", "*.half", ".*.rec", ".*.flight", "unrecorded-*", ".reserve-*"),
    "logs": ("train_*.log", "debug_rank*.log", "output_*.log"),
    "snapshots": ("*.json", "*.half"),
}  # fmt: skip


def forget_aloud(base: Path, kind: str, but: Path, say: Callable[[str], None]) -> None:
    """Remove old ones, and say which."""
    removed = forget_old(base, kind, but=but)
    if removed:
        more = f" and {len(removed) - NAMED} more" if len(removed) > NAMED else ""
        what = f"{len(removed)} old {PLURAL[kind]}" if len(removed) > 1 else f"1 old {SINGULAR[kind]}"
        say(f"removed {what} from {base} (the newest {KEPT[kind]} are kept): {', '.join(removed[:NAMED])}{more}")


def forget_old(base: Path, kind: str, keep: int | None = None, but: Path | None = None) -> list[str]:
    """Remove the oldest of this kind beyond the limit, never `but`; give back the names of those removed.

    Others may do the same at this moment, and what cannot be removed stays.
    """
    found = [(_age(path), path) for path in _folders(base) if kind_of(str(path)) == kind]
    surplus = len(found) - (KEPT[kind] if keep is None else keep)
    removed = []
    for _, path in sorted(found, reverse=True)[: max(surplus, 0)]:
        if path != but and is_over(path) and remove(path):
            removed.append(path.name)
    return removed


def is_over(folder: Path) -> bool:
    """No process of it lives here, and every watcher has said its end or has been silent for very long."""
    if any(_lives_here(name) for name in _names(folder / "recordings")):
        return False
    locks = [name for name in _names(folder) if fnmatch.fnmatch(name, "watch-*.lock")]
    states = [_state(folder / name) for name in locks]
    if "held" in states:
        return False
    if locks and all(state == "ended" for state in states):
        return True
    if kind_of(str(folder)) != RUN and not locks:
        return _silence(folder) > 3600.0  # trials and checks have no watcher of their own, and write all the time
    return _silence(folder) > SILENT


def remove(folder: Path) -> bool:
    """What we wrote there, and the folder if nothing else is in it. False: it could not be removed at all."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for place in _elsewhere(folder):
            _remove_elsewhere(place)
        for name in _names(folder):
            if name.startswith("trial-") and kind_of(str(folder / name)) is not None:
                remove(folder / name)
        for part in ("recordings", "logs", "snapshots"):
            _remove_part(part, fd)
        _unlink(fd, OURS[""])
        _unlink(fd, (MARK,))
    except OSError:  # another process may be removing it, too
        return False
    finally:
        os.close(fd)
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return True


def remove_recordings(folder: Path) -> None:
    """Of a trial whose evidence is in its report."""
    if kind_of(str(folder)) is None:
        return
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _remove_part("recordings", fd)
        finally:
            os.close(fd)


def _remove_part(part: str, above: int) -> None:
    try:
        fd = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:
        return
    try:
        _unlink(fd, OURS[part])
    finally:
        os.close(fd)
    with contextlib.suppress(OSError):
        os.rmdir(part, dir_fd=above)


def _unlink(fd: int, patterns: tuple[str, ...]) -> None:
    for name in os.listdir(fd):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=fd)


def _elsewhere(folder: Path) -> Iterator[Path]:
    """Where this node wrote the recordings of a run whose folder lies on a network file system."""
    path = folder / f"recordings-{os.uname().nodename}.at"
    with contextlib.suppress(OSError, ValueError):
        if stat.S_ISREG(os.lstat(path).st_mode):
            yield Path(path.read_text(encoding="utf-8").strip())


def _remove_elsewhere(place: Path) -> None:
    if kind_of(str(place)) is None:
        return
    with contextlib.suppress(OSError):
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _unlink(fd, (*OURS["recordings"], MARK))
        finally:
            os.close(fd)
        os.rmdir(place)


def _folders(base: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(base) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _lives_here(file: str) -> bool:
    name = recording_name(file)
    return name is not None and name.node == os.uname().nodename and process_start(name.pid) == name.started


def _state(lock: Path) -> str:
    """ended, held, or unknown: it was never said, or by a node that we cannot ask."""
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return "unknown"
    try:
        words = os.read(fd, 100).split()
        if lock.name == f"watch-{os.uname().nodename}.lock" and is_held(fd, words):
            return "held"
        return "ended" if words[:1] == [ENDED] else "unknown"
    except (OSError, ValueError):
        return "unknown"
    finally:
        os.close(fd)


def _age(folder: Path) -> float:
    for path in (folder / "run.json", folder):
        with contextlib.suppress(OSError):
            return time.time() - os.lstat(path).st_mtime
    return 0.0


def _silence(folder: Path) -> float:
    """Seconds since anything in it was written."""
    newest = 0.0
    trials = [folder / name for name in _names(folder) if name.startswith("trial-")]
    for place in (folder, folder / "recordings", folder / "logs", *trials):
        for path in (place, *(place / name for name in _names(place))):
            with contextlib.suppress(OSError):
                newest = max(newest, os.lstat(path).st_mtime)
    return time.time() - newest
