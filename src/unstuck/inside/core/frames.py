"""What a frame tells: the user's own line behind a call, and the local variables of a call, without a trace of us.

Before Python 3.13, `frame.f_locals` of a function is a dict that the frame makes and keeps: whatever it holds lives on
until the call ends, and a generator may be suspended for a whole pass. So it is emptied at once. It is the same dict
that `locals()` gives and that a debugger writes into: where one of these may have it, it is left alone, and so is what
`exec` has put there.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from ..format import APART
from .guard import is_library

FAR = 40  # calls up the stack: libraries are deep
CODES = 4096  # functions of which it is remembered whose they are

OWN_NAMES = 1  # flag of a code object whose locals are no dict: a function's
TAKES_THEM = frozenset(("locals", "vars"))
OURS_ALONE = 3  # references to the dict: the frame's, ours, and the argument of the function that counts them


def user_frame(frame: FrameType | None) -> FrameType | None:
    for _ in range(FAR):
        if frame is None:
            return None
        library = _library.get(frame.f_code)
        if library is None:
            library = is_library(frame.f_code.co_filename)
            if len(_library) < CODES:
                _library[frame.f_code] = library
        if not library:
            return frame
        frame = frame.f_back
    return None


def in_words(frame: FrameType | None) -> str:
    """File, line and function, as strings of a recording have them. Empty: there is none."""
    found = user_frame(frame)
    if found is None:
        return ""
    return APART.join((found.f_code.co_filename, str(found.f_lineno), found.f_code.co_name))


def user_line(frame: FrameType | None) -> dict[str, Any] | None:
    """The first line up the stack that is neither ours nor a library's."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_library(file):
            return {"file": file, "line": frame.f_lineno, "function": frame.f_code.co_name}
        frame = frame.f_back
    return None


def variables(frame: FrameType) -> dict[str, Any]:
    """A copy by name. Empty where it cannot be had without touching what is the user's."""
    if sys.version_info >= (3, 13) or not frame.f_code.co_flags & OWN_NAMES:
        return dict(frame.f_locals)
    code = frame.f_code
    if frame.f_trace is not None or not TAKES_THEM.isdisjoint(code.co_names):
        return {}
    kept = frame.f_locals
    found = dict(kept)
    if sys.getrefcount(kept) <= OURS_ALONE:
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            kept.pop(name, None)
    return found


_library: dict[CodeType, bool] = {}
