"""How a file is told that is not read: which, and why."""

from __future__ import annotations

import os


def left_out(path: str | os.PathLike[str], error: Exception) -> str:
    """One line. A file that is not plain, that may not be read, or that holds something else than it should."""
    path = encodable(os.fspath(path))
    if isinstance(error, OSError) and error.strerror:
        known = error.errno is None  # a reason of ours: it says what the file is
        return f"{path} is left out: {'it is ' if known else ''}{error.strerror}"
    said = encodable(str(error)).replace("\n", " ")[:200]
    return f"{path} is left out: it is damaged ({type(error).__name__}{': ' if said else ''}{said})"


def encodable(text: str) -> str:
    """A name with bytes that are no UTF-8 as text that can be written: each of them by its number."""
    try:
        return os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
