"""Functions that read or decode while a sample is loaded: each is timed as a stage, and its errors are noted.

The dataset's own code may catch such an error. Whether it does shows later: the process goes on. What is read after
all, by the same function, is taken back.
"""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType
from typing import Any

from ..core.guard import Guard, clean
from ..core.objects import attributes_of, path_of
from ..core.process import process
from ..core.recorder import clock
from ..failures.exceptions import identity
from ..format import Kind
from ..sources.shards import Part, part_of
from .fetches import in_sample
from .stages import Stage, Taken, depth, shape_of, stage_of

LIBRARY = "readers"
FAILED_READS = 256  # reads that may still be taken back
AT_ONCE = 100_000  # nanoseconds between two sights of one error, on its way out of one function after the other


def timed_reader(original: Any, name: str, guard: Guard) -> Any:
    """A wrapper for a function that reads or decodes: a stage of its own, while a sample is being loaded."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        known: Stage | None = None
        before: Taken | None = None
        recorder = process.recorder
        try:
            if recorder is not None and not depth.open and in_sample(recorder):
                known = stage_of(recorder, name)
                before = known.begins()
        except Exception as error:
            if guard.theirs(error):
                raise
        if known is None:
            try:
                return original(*args, **kwargs)
            except Exception as error:
                guard.quietly(read_fails, name, target_of(args), error, sys._getframe(1))
                clean(error)
                raise
        begun = clock()
        depth.open += 1
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            guard.quietly(read_fails, name, target_of(args), error, sys._getframe(1))
            clean(error)
            raise
        finally:
            depth.open -= 1
        try:
            now = clock()
            if recorder is process.recorder:  # else it has forked, and this is the child
                item = _path(args[0]) if args else ""
                known.ends(begun, now, before, item, outermost=True)
                if failed_reads:
                    read_succeeds(name, target_of(args))
                if known.detailed:
                    known.tells(begun, now - begun, item, shape_of(result), 1)
        except Exception as error:
            if guard.theirs(error):
                raise
        return result

    return call


def noted_reader(original: Any, name: str, guard: Guard) -> Any:
    """The same without the time: only its errors are noted."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = original(*args, **kwargs)
        except Exception as error:
            guard.quietly(read_fails, name, target_of(args), error, sys._getframe(1))
            clean(error)
            raise
        if failed_reads:
            guard.quietly(read_succeeds, name, target_of(args))
        return result

    return call


def _path(value: Any) -> str:
    """A path as the user wrote it. Only Python's own types are asked."""
    if type(value) is str:
        return value
    return str(value) if type(value).__module__.partition(".")[0] == "pathlib" else ""


def read_fails(name: str, target: object, error: Exception, frame: FrameType | None) -> None:
    """To look whether there is a file is no failure, and one error counts once, however many functions it leaves."""
    recorder, now = process.recorder, clock()
    if recorder is None or isinstance(error, FileNotFoundError) or not in_sample(recorder):
        return
    path = _named(target)
    mark, _newest[0] = _newest[0], (identity(error), path, now)
    part = part_of(LIBRARY, frame, name=name)
    if part is None or (mark[:2] == _newest[0][:2] and now - mark[2] < AT_ONCE):
        return
    if not part.passes:
        part.begins()
    noted = part.fails(error, "read", path=path)
    if len(failed_reads) < FAILED_READS:
        failed_reads[name, path] = (part, noted)


def read_succeeds(name: str, target: object) -> None:
    """Called where something has failed before: the second attempt counts."""
    known = failed_reads.pop((name, _named(target)), None)
    if known is not None and known[0].recorder is process.recorder:
        part, noted = known
        part.failed -= 1
        if noted:
            part.recorder.note(Kind.SHARD_ERROR, part.key, noted, max(clock() - noted, 1))
        part.show()


def _named(target: object) -> str:
    if type(target).__module__.startswith("PIL."):
        target = attributes_of(target).get("filename")
    return path_of(target) if target is not None else ""


def target_of(args: tuple[Any, ...]) -> object:
    """What a function was given to read."""
    return next((one for one in args if isinstance(one, (str, os.PathLike))), args[0] if args else None)


failed_reads: dict[tuple[str, str], tuple[Part, int]] = {}
_newest: list[tuple[tuple[object, ...], str, int]] = [((), "", 0)]
