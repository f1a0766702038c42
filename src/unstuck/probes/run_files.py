"""Files that a run names: its checkpoints, whether they are still there and whole, and the data it had trouble with."""

from __future__ import annotations

import itertools
import os
import stat
import time
from contextlib import suppress

import msgspec

from ..checking.notes import Wish
from ..checking.workers import Task, Workers
from ..evidence import Evidence
from ..evidence.data import Asked, Data
from ..evidence.process import Process, Saved, Saving
from ..safe_files import open_plain

NEWEST = 32  # of each process, that are looked for
ENTRIES = 4096  # of a folder that are looked at for a file that was renamed
TAIL = 1 << 16  # bytes at the end of a zip file in which its directory ends: that of a comment, at most
BEGIN, END = b"PK\x03\x04", b"PK\x05\x06"
PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")  # gzip, bzip2, xz, zstd, lz4
TROUBLED = 6  # files with which there was trouble: the first of them
SECONDS = 2.0  # a verdict is wanted soon after a crash; pyarrow alone takes half a second to be there
SIBLINGS, LOOKED = 3, 100  # files beside each that are looked at, and among how many they are looked for
OURS = (".py", ".pyc", ".so")


def with_checkpoints(processes: list[Process], now: float) -> list[Process]:
    """The same processes, with what is on disk now of what they saved: whether it is there, how large, and whole.

    Those of other nodes are left as they are.
    """
    node = os.uname().nodename
    return [_looked_at(one, now) if one.node == node and (one.saved or one.saving) else one for one in processes]


def _looked_at(process: Process, now: float) -> Process:
    older, newest = process.saved[:-NEWEST], process.saved[-NEWEST:]
    last = {one.path: one for one in newest if not one.failed}
    found = [_found(one, ends=last.get(one.path) is one) for one in newest]
    saving = [_so_far(one, now if process.alive else process.last_sign) for one in process.saving]
    return msgspec.structs.replace(process, saved=[*older, *found], saving=saving)


def _found(one: Saved, *, ends: bool) -> Saved:
    """A file that was not there right after it was saved has no name that can be looked for."""
    if not one.inode:
        return one
    size, path = size_of(one.path), one.path
    if size is None:
        path = _renamed(one.path, one.inode) or ""
        size = size_of(path) if path else None
    whole = _is_whole(path, size, one.size) if ends and size is not None and not one.how else None
    name = path if size is not None else one.path  # it was written beside, and renamed
    return msgspec.structs.replace(one, path=name, there=size is not None, size_now=size, whole=whole)


def size_of(path: str) -> int | None:
    """Of a folder: of the files in it."""
    try:
        if not os.path.isdir(path):
            return os.stat(path).st_size
        with os.scandir(path) as entries:
            return sum(one.stat().st_size for one, _ in zip(entries, range(ENTRIES), strict=False) if one.is_file())
    except (OSError, ValueError):  # not there, or no name that a file can have
        return None


def _renamed(path: str, inode: int) -> str | None:
    """The same file under another name beside it; where its folder is gone, in a folder beside that one."""
    folder, name = os.path.split(path)
    if os.path.isdir(folder):
        return next((one.path for one in _entries(folder) if one.inode() == inode), None)
    beside = [os.path.join(one.path, name) for one in _entries(os.path.dirname(folder)) if one.is_dir()]
    return next((one for one in beside if _inode(one) == inode), None)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [one for one, _ in zip(entries, range(ENTRIES), strict=False)]
    except (OSError, ValueError):
        return []


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except (OSError, ValueError):
        return None


def _is_whole(path: str, size: int, saved: int | None) -> bool | None:
    """torch.save writes a zip file, whose directory comes last. None: it is something else that may be whole.

    Something else that is smaller than what was saved is not, unless somebody has packed it.
    """
    if size == 0:
        return False if saved else None  # what was empty from the beginning is no file: /dev/null
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # nothing else is opened: a device may act upon that
            return None
        with os.fdopen(open_plain(path, follow=True), "rb") as file:
            begins = file.read(8)
            if not begins.startswith(BEGIN):
                return False if saved is not None and size < saved and not begins.startswith(PACKED) else None
            file.seek(max(size - TAIL, 0))
            return END in file.read(TAIL)
    except (OSError, ValueError):
        return None


def _so_far(one: Saving, now: float) -> Saving:
    return msgspec.structs.replace(one, size=size_of(one.path), seconds=round(max(now - one.since, 0.0), 3))


def with_data(evidence: Evidence) -> Evidence:
    """With what reading the files shows that it had trouble with, as far as there is time for it."""
    if evidence.run.host != os.uname().nodename:
        return evidence
    named = _here(evidence, _of_errors(evidence))
    paths = list(dict.fromkeys([*named, *_here(evidence, _short(evidence))]))[:TROUBLED]
    if not paths:
        return evidence
    with Workers(1, until=time.monotonic() + SECONDS) as workers:
        tasks = [Task([path], Wish(decode=True)) for path in paths]
        tasks += [Task([path], Wish(whole=False)) for path in _beside(paths)]
        files = [one.file for one in workers.read(tasks, lambda _: None)]
    known = [one for one in files if one.format or one.faults]
    left = [path for path in named[:TROUBLED] if path not in {one.path for one in files}]
    stopped = f"{left[0]} was not read to its end in {SECONDS:.0f} s: `unstuck check` reads it" if left else ""
    data = Data(Asked(paths, decode=True), files=known, of_run=True, stopped=stopped)
    return msgspec.structs.replace(evidence, data=data) if known or left else evidence


def names_data(evidence: Evidence) -> bool:
    """Whether there is anything to be read that it had trouble with."""
    here = evidence.run.host == os.uname().nodename
    return here and bool(_of_errors(evidence) or _short(evidence))


def _beside(paths: list[str]) -> list[str]:
    """Some others of the same folder and kind: their ends show what their writer usually puts there."""
    found = dict.fromkeys(paths)
    for path in paths:
        folder, ending = os.path.dirname(path), os.path.splitext(path)[1]
        with suppress(OSError), os.scandir(folder) as entries:
            names = (one.path for one in itertools.islice(entries, LOOKED) if one.name.endswith(ending or "\0"))
            found.update(dict.fromkeys(itertools.islice((name for name in names if name not in found), SIBLINGS)))
    return list(found)[len(paths) :]


def _of_errors(evidence: Evidence) -> list[str]:
    recorded = evidence.recording or []
    found = [error.path for one in recorded for shards in one.shards for error in shards.errors]
    return found + [path for one in recorded for failure in one.failures for path in failure.paths]


def _short(evidence: Evidence) -> list[str]:
    """Files that gave fewer samples than others: that is all that a silent cut shows."""
    found = [each for one in evidence.recording or () for shards in one.shards for each in shards.short]
    return [each.path for each in sorted(found, key=lambda each: each.samples)]


def _here(evidence: Evidence, names: list[str]) -> list[str]:
    """Those that are data files of this machine."""
    paths = [os.path.join(evidence.run.cwd, name.removeprefix("file:")) for name in dict.fromkeys(names)]
    return [path for path in paths if os.path.isfile(path) and not path.endswith(OURS)]
