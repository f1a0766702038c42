"""The user's own line behind a call: the first up the stack that is neither ours nor a library's."""

from __future__ import annotations

from types import CodeType, FrameType

from .format import APART
from .guard import is_library

FAR = 40  # calls up the stack: libraries are deep
CODES = 4096  # functions of which it is remembered whose they are


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


_library: dict[CodeType, bool] = {}
