"""Exceptions that only a decoder raises over the content of a file: which of those that ended a run are such."""

from __future__ import annotations

import re

from .evidence import Evidence
from .raised import Raised, raised
from .recorded import Failure

UNIDENTIFIED = "UnidentifiedImageError"
# Raised by Pillow's readers these are about the file's content; raised elsewhere they may be about anything.
OF_PILLOW = ("OSError", "SyntaxError", "error")
READERS = re.compile(r"/PIL/(ImageFile|\w+ImagePlugin)\.py$")
SAVING = ("save", "_save", "_save_all")  # the same files hold Pillow's writers
OF_SYSTEM = re.compile(r"\[Errno \d+\]")  # the file could not be read at all
# The types of zlib and of struct are both called "error": only the words tell.
COMPRESSED = {
    "error": ("while decompressing data",),
    "BadGzipFile": ("",),
    "LZMAError": ("",),
    "EOFError": ("Compressed file ended before the end-of-stream marker", "Ran out of input"),
    "OSError": ("Invalid data stream",),
    "UnpicklingError": ("pickle data was truncated",),
}
QUOTED = re.compile(r"'([^'\n]+)'")


def undecoded(evidence: Evidence) -> list[Raised]:
    """The first first."""
    return [one for one in raised(evidence) if _damaged(one.failure)]


def path_of(failure: Failure) -> str:
    """The file that the message names, else the first that was in hand."""
    named = [one for one in QUOTED.findall(failure.message) if "/" in one]
    return (named or paths_of(failure) or [""])[0]


def paths_of(failure: Failure) -> list[str]:
    """What a decoder has in hand is bytes, some of which look like a path."""
    return [one for one in failure.paths if one.isprintable()]


def _damaged(failure: Failure) -> bool:
    if failure.type == UNIDENTIFIED:
        return True
    if OF_SYSTEM.match(failure.message):
        return False
    if any(words in failure.message for words in COMPRESSED.get(failure.type, ())):
        return True
    return failure.type in OF_PILLOW and _in_pillow(failure)


def _in_pillow(failure: Failure) -> bool:
    last = failure.frames[-1] if failure.frames else None
    saving = any("/PIL/" in frame.file and frame.function in SAVING for frame in failure.frames)
    return last is not None and READERS.search(last.file) is not None and not saving
