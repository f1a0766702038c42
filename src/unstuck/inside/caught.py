"""Errors that leave a function which reads files while a sample is loaded: the dataset's own code may catch them.

Whether it does shows later: the process goes on. What is read after all, by the same function, is taken back.
"""

from __future__ import annotations

import os
from types import FrameType
from typing import Any

from .exceptions import identity
from .fetches import in_sample
from .format import Kind
from .holdings import attributes_of
from .paths import path_of
from .process import process
from .recorder import clock
from .shards import Part, part_of

LIBRARY = "readers"
FAILED = 256  # reads that may still be taken back
AT_ONCE = 100_000  # nanoseconds between two sights of one error, on its way out of one function after the other


def fails(name: str, target: object, error: Exception, frame: FrameType | None) -> None:
    """To look whether there is a file is no failure, and one error counts once, however many functions it leaves."""
    recorder, now = process.recorder, clock()
    if recorder is None or isinstance(error, FileNotFoundError) or not in_sample(recorder):
        return
    path = named(target)
    mark, _newest[0] = _newest[0], (identity(error), path, now)
    part = part_of(LIBRARY, frame, name=name)
    if part is None or (mark[:2] == _newest[0][:2] and now - mark[2] < AT_ONCE):
        return
    if not part.passes:
        part.begins()
    noted = part.fails(error, "read", path=path)
    if len(failed) < FAILED:
        failed[name, path] = (part, noted)


def succeeds(name: str, target: object) -> None:
    """Called where something has failed before: the second attempt counts."""
    known = failed.pop((name, named(target)), None)
    if known is not None and known[0].recorder is process.recorder:
        part, noted = known
        part.failed -= 1
        if noted:
            part.recorder.note(Kind.SHARD_ERROR, part.key, noted, max(clock() - noted, 1))
        part.show()


def named(target: object) -> str:
    if type(target).__module__.startswith("PIL."):
        target = attributes_of(target).get("filename")
    return path_of(target) if target is not None else ""


def of_call(args: tuple[Any, ...]) -> object:
    """What a function was given to read."""
    return next((one for one in args if isinstance(one, (str, os.PathLike))), args[0] if args else None)


failed: dict[tuple[str, str], tuple[Part, int]] = {}
_newest: list[tuple[tuple[object, ...], str, int]] = [((), "", 0)]
