"""`tarfile`: archives that cannot be opened or read to their end. Costs nothing until one is: only errors are seen.

The library raises `ReadError` inside itself, too, while it looks for the right format: those are told apart by who
raises. webdataset asks a handler about its own, which is another adapter's business.
"""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import Any

from ..core.frames import variables
from ..core.guard import Guard, Undo, replace
from ..format import Kind
from ..loading.readers import read_fails

MODULES = ("tarfile",)
OWES = (Kind.SHARD_ERROR,)
NAME = "tarfile"
READING = ("read", "next", "copyfileobj", "open")  # functions of the library that raise it to whoever called
OPENING = ("open", "taropen", "gzopen", "bz2open", "xzopen", "__init__")  # and that catch what they try
DEEP = 40


def install(module: ModuleType, guard: Guard) -> Undo:
    error = module.ReadError
    if "__init__" not in vars(error):
        error.__init__ = error.__init__  # the one it inherits, so that there is something to replace

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            guard.quietly(_raised, self, sys._getframe(1))

        return __init__

    return replace(error, "__init__", make)


def _raised(error: Exception, frame: FrameType) -> None:
    code = frame.f_code
    if code.co_name not in READING or not _leaves(frame):
        return
    read_fails(NAME, _archive(frame), error, frame)


def _leaves(frame: FrameType) -> bool:
    """No function of the library that would catch it, nor webdataset, is waiting for the result."""
    file, following = frame.f_code.co_filename, frame.f_back
    for _ in range(DEEP):
        if following is None:
            return True
        code = following.f_code
        if (code.co_filename == file and code.co_name in OPENING) or "webdataset" in code.co_filename:
            return False
        following = following.f_back
    return True


def _archive(frame: FrameType) -> object:
    """Its path, or the file object that was given for it."""
    known = variables(frame)
    owner = known.get("self")
    if owner is None:
        return known.get("name") or known.get("fileobj")
    return getattr(owner, "name", None) or getattr(owner, "fileobj", None)
