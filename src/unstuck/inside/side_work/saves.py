"""What is saved to disk: which file, how long it took, how large it was then, from which line, and what went wrong.

A thread of the user's may save as well: that holds nobody up. In a worker it is no checkpoint, and passed over.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
import threading
from _thread import get_ident
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..core.frames import in_words
from ..core.guard import Guard, around
from ..core.objects import path_of
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..failures.exceptions import message_of
from ..format import H_ROLE, ROLE_MAIN, SAVED_ASIDE, SAVED_BITS, SAVED_HELD, SAVED_STEP, Kind

NOTED = 500  # saves that outlive the ring; one that saves with every step must not push out the other notes
FAILURES = 100  # the same of saves that failed
FILES = 256  # of a folder that are looked at for its size
LARGEST = 1 << 58  # an inode's number beyond it finds no room
CAUSES = 5
LONGEST = 500  # characters of a message


class Save:
    """One that was begun."""

    __slots__ = ("how", "is_over", "line", "path", "recorder", "slot", "start", "step")

    def __init__(self, recorder: Recorder, path: str, how: int, frame: FrameType | None) -> None:
        self.recorder, self.path, self.is_over = recorder, path, False
        aside = get_ident() != threading.main_thread().ident
        self.how = how | SAVED_ASIDE if aside else how
        self.line = recorder.intern(in_words(frame)) if len(_counted) < NOTED else 0
        self.slot = recorder.board_slot(Kind.SAVE, aside)
        self.step = process.optimizer_steps << SAVED_STEP
        self.start = clock()
        # What goes on in the background is not what the process turned to last.
        recorder.board_text(self.slot, Kind.SAVE, aside, 0 if aside else self.start, path, self.start, self.line)

    def ends(self) -> None:
        recorder = self.recorder
        if recorder is not process.recorder:  # a child was forked in between
            return
        now = clock()
        size, inode = _found(self.path)
        how = self.how | inode << SAVED_BITS
        _counted.append(None)
        if len(_counted) <= NOTED:
            recorder.note(
                Kind.SAVE, recorder.intern(self.path), self.start, now - self.start, how, size, self.line | self.step
            )
        else:  # no name: new ones would fill the table of strings
            recorder.event(Kind.SAVE, 0, self.start, now - self.start, how, size, self.step)
            _counted.pop()
        if not self.how & SAVED_ASIDE:
            recorder.total(recorder.total_slot(Kind.SAVE), now - self.start)
        self.leaves()
        recorder.cost(clock() - now)
        self.is_over = True

    def fails(self, error: BaseException) -> None:
        recorder = self.recorder
        if recorder is not process.recorder or len(_failed) >= FAILURES:
            return
        now = clock()
        _failed.append(None)
        facts = recorder.intern(json.dumps(_facts(error, self.path), ensure_ascii=False))
        path = recorder.intern(self.path)
        recorder.note(Kind.SAVE_FAILED, path, self.start, now - self.start, facts, self.how, self.line)
        self.leaves()
        recorder.cost(clock() - now)
        self.is_over = True

    def is_left(self, error: BaseException | None) -> None:
        """By what is no Exception: mostly somebody's wish to stop."""
        if error is None or isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            self.leaves()
        else:
            self.fails(error)

    def leaves(self) -> None:
        """It goes on no longer."""
        if self.recorder is process.recorder:
            self.recorder.board(self.slot, Kind.SAVE, 0, 0)


def begin(target: object, how: int, frame: FrameType | None) -> Save | None:
    """None when nothing records, and in a worker."""
    recorder = process.recorder
    if recorder is None or recorder.words[H_ROLE] != ROLE_MAIN:
        return None
    return Save(recorder, path_of(target), how, frame)


def held(target: object, start: int, how: int, frame: FrameType | None) -> None:
    """The training was held up by something that is then saved in the background."""
    recorder = process.recorder
    if recorder is None or recorder.words[H_ROLE] != ROLE_MAIN or len(_counted) >= NOTED:
        return
    now = clock()
    path, line = recorder.intern(path_of(target)), recorder.intern(in_words(frame))
    step = process.optimizer_steps << SAVED_STEP
    recorder.note(Kind.SAVE, path, start, now - start, how | SAVED_ASIDE | SAVED_HELD, 0, line | step)


def saves(original: Any, target_of: Callable[..., object], how: int, guard: Guard) -> Any:
    """A wrapper for a function that saves what is known by `target_of` its arguments."""
    begins, leaves = functools.partial(_begun, target_of, how), functools.partial(_left, guard)
    save = around(original, guard, begins, end=Save.ends, fail=Save.fails, leave=leaves)
    return functools.update_wrapper(save, original)


def _left(guard: Guard, save: Save) -> None:
    """By Ctrl-C, or the like; torch.distributed.checkpoint's own exception is no Exception."""
    if not save.is_over:
        guard.quietly(save.is_left, sys.exc_info()[1])


def _begun(target_of: Callable[..., object], how: int, frame: FrameType, args: Any, kwargs: Any) -> Save | None:
    target = target_of(frame, *args, **kwargs)
    return None if target is None else begin(target, how, frame)


def _found(path: str) -> tuple[int, int]:
    """Bytes on disk plus one, and the inode; 0: not known. Of a folder the bytes of the files in it."""
    try:
        status = os.stat(path)
        inode = status.st_ino if status.st_ino < LARGEST else 0
        if status.st_mode & 0o170000 != 0o040000:
            return status.st_size + 1, inode
        with os.scandir(path) as entries:
            sizes = [one.stat().st_size for one, _ in zip(entries, range(FILES), strict=False) if one.is_file()]
    except OSError:
        return 0, 0
    return sum(sizes) + 1, inode


def _facts(error: BaseException, path: str) -> dict[str, Any]:
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and len(chain) < CAUSES:
        chain.append(following)
        following = following.__cause__ or following.__context__
    size, inode = _found(path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return {
        "failed": _said(error),
        "errno": next((one.errno for one in chain if isinstance(one, OSError) and one.errno), 0),
        "causes": [_said(one) for one in chain[1:]],
        "size": size - 1 if size else None,
        "inode": inode,
        "limit": None if limit == resource.RLIM_INFINITY else limit,
        **_space(path),
    }


def _said(error: BaseException) -> str:
    """Type and message; of one that has a traceback inside, its first line and its last."""
    lines = message_of(error).strip().splitlines() or [""]
    text = lines[0] if len(lines) == 1 else f"{lines[0]} … {lines[-1]}"
    return f"{type(error).__name__}: {text}"[:LONGEST]


def _space(path: str) -> dict[str, int]:
    """Of the disk it was to lie on: bytes and files for which there is room, right after it failed."""
    if path.startswith("<"):
        return {}
    folder = os.path.dirname(path)
    while folder and not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        disk = os.statvfs(folder)
    except OSError:
        return {}
    room = {"free": disk.f_bavail * disk.f_frsize, "total": disk.f_blocks * disk.f_frsize}
    return {**room, "files": disk.f_favail} if disk.f_files else room


_counted: list[None] = []
_failed: list[None] = []
