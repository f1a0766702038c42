"""Tells our own failures from everything else that may fly through our frames.

Signal handlers raise inside whatever Python frame is running, ours too. So an `Exception` is ours only if it was raised
in this folder, or by the standard library while doing something for it; all others belong to the user and go on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def is_library(file: str) -> bool:
    """Neither the user's own code nor a notebook's: installed, standard, compiled by Cython, or ours."""
    return is_installed(file) or file.startswith((HERE, STANDARD, "<frozen ")) or is_compiled(file)


def is_compiled(file: str) -> bool:
    """Cython names the source by a path in somebody else's tree: pyarrow/error.pxi."""
    return file.endswith((".pyx", ".pxi", ".pxd")) and not os.path.isabs(file)


def is_installed(file: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in file or f"{os.sep}dist-packages{os.sep}" in file


def is_ours(error: BaseException) -> bool:
    ours = False
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(HERE):
            ours = True
        elif is_installed(file) or not file.startswith((STANDARD, "<frozen ")):
            ours = False
        trace = trace.tb_next
    return ours


def without_us(trace: TracebackType | None) -> TracebackType | None:
    """A traceback with our frames taken out. Followed by a bare `raise` it keeps them out (from Python 3.11 on)."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(HERE):
        trace = trace.tb_next
    kept = trace
    while kept is not None and kept.tb_next is not None:
        if kept.tb_next.tb_frame.f_code.co_filename.startswith(HERE):
            kept.tb_next = kept.tb_next.tb_next
        else:
            kept = kept.tb_next
    return trace


def clean(error: BaseException) -> None:
    error.__traceback__ = without_us(error.__traceback__)


class Guard:
    """One adapter's licence to run: withdrawn at its first failure of its own."""

    def __init__(self, name: str, report: Callable[[str, BaseException], None]) -> None:
        self.name = name
        self.undo: Callable[[], None] | None = None
        self._report = report

    def theirs(self, error: Exception) -> bool:
        """In an `except` block: True means `raise`, it is none of ours. If it is, the adapter has been undone."""
        if not is_ours(error):
            clean(error)
            return True
        undo, self.undo = self.undo, None
        if undo is not None:
            undo()
            quietly(self._report, self.name, error)
        return False

    def quietly(self, call: Callable[..., object], *args: object) -> None:
        """Run a step of our own that is not on a hot path."""
        self.result(call, *args)

    def result(self, call: Callable[..., T], *args: object) -> T | None:
        """The same, for what it gives; None if it failed."""
        try:
            return call(*args)
        except Exception as error:
            if self.theirs(error):
                raise
        return None


def quietly(call: Callable[..., object], *args: object) -> None:
    """The same where no adapter can be undone."""
    try:
        call(*args)
    except Exception as error:
        if not is_ours(error):
            clean(error)
            raise
