"""Questions about what was saved: what it cost the training, and why it could not be."""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

from .evidence import Evidence
from .recorded import Failure, Process
from .told import Saved

NEARLY = 1 << 20  # bytes: what is left of a disk that is full, because the next piece to be written is larger
WRITERS = ("inline_container", "PytorchStreamWriter", "iostream error", "Not enough free space to write")
DISK, FILES, QUOTA, LIMIT = (
    "the disk is full",
    "the disk has no room for another file",
    "a disk quota is used up",
    ("files may not be so large"),
)
TEXTS = ("No space left on device", "Disk quota exceeded", WRITERS[-1])
SHORT = re.compile(r"\d+ requested and \d+ written")  # numpy, of a file that took less than it was given
SHARED = ("shared memory", "/torch_", "/dev/shm")
NO_ROOM = "checkpoint-disk-full"


class Held(NamedTuple):
    """What saving held up the training for, in one process."""

    process: Process
    saves: list[Saved]  # after which training went on

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.saves)

    @property
    def written(self) -> int | None:
        """Bytes; None: of one or more it is not known."""
        sizes = [one.size for one in self.saves]
        return None if None in sizes or not sizes else sum(size or 0 for size in sizes)


def held(process: Process) -> Held:
    """The last one of a run, with no step after it, holds nothing up."""
    last = last_trained(process)
    return Held(process, [one for one in process.saved if not one.failed and one.at + one.seconds < last])


def last_trained(process: Process) -> float:
    """When the newest step ended, or the newest batch came."""
    batches = [one.now_since for one in process.loaders if one.now == "in the loop's body"]
    ended = [each.at for one in process.loaders for each in one.ended]
    return max([process.last_step or 0.0, *batches, *ended])


def refused(one: Saved, usual: int | None) -> str:
    """Why there was no room for it; "": it failed for another reason, or that does not show.

    torch's own writer tells no reason at all: then the state of the disk right after it does.
    """
    text = " ".join([one.failed, *one.causes])
    code = one.errno or next(
        (code for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) if os.strerror(code) in text), 0
    )
    if code == errno.EDQUOT:
        return QUOTA
    if code == errno.EFBIG:
        return LIMIT
    if code and code != errno.ENOSPC:
        return ""
    if code or any(part in text for part in WRITERS):
        return _by_its_state(one, usual) or (DISK if code else "")
    return ""


def _by_its_state(one: Saved, usual: int | None) -> str:
    if one.limit is not None and (one.size or 0) >= one.limit:
        return LIMIT
    if one.files == 0:
        return FILES
    if one.free is None:
        return ""
    short = usual is not None and one.free + (one.size or 0) < usual
    return DISK if one.free < NEARLY or short else ""


def usual_size(process: Process, failed: Saved) -> int | None:
    """Bytes of the newest that was saved from the same line before."""
    before = [one for one in process.saved if not one.failed and one.size and one.where == failed.where]
    return before[-1].size if before else None


def without_room(failure: Failure) -> bool:
    """Semaphores and shared tensors are files too, in /dev/shm: these are another rule's business."""
    text = _text(failure)
    shared = any(part in text for part in SHARED) or failure.shm_free == 0
    shared = shared or any("/multiprocessing/" in frame.file for frame in failure.frames[-4:])
    return (says_why(failure) or SHORT.fullmatch(failure.message.strip()) is not None) and not shared


def says_why(failure: Failure) -> bool:
    """In the system's own words."""
    return any(part in _text(failure) for part in TEXTS)


def _text(failure: Failure) -> str:
    return " ".join([failure.message, *(message for _, message in failure.causes)])


def half_written(evidence: Evidence) -> set[str]:
    """Files that there was no room for: what is there of them is no damage, but how far writing them came."""
    found: set[str] = set()
    for process in evidence.mains():
        found |= {one.path for one in process.saved if one.failed and refused(one, usual_size(process, one))}
        failure = process.failure
        found |= set(failure.paths) if failure is not None and without_room(failure) else set()
    return {os.path.join(evidence.run.cwd, one) for one in found}
