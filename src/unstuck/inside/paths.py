"""The path behind what a library was given to read or write. Nothing of the user's is called for it."""

from __future__ import annotations

import os

PYTHONS = ("_io", "tempfile")  # whose file objects can be asked for their name


def path_of(target: object) -> str:
    """Absolute; an address as it is; the type in angle brackets where there is neither."""
    if type(target) is str:
        return target if "://" in target else os.path.abspath(target)
    if isinstance(target, os.PathLike) and type(target).__module__.startswith("pathlib"):
        return os.path.abspath(str(target))
    name = getattr(target, "name", None) if type(target).__module__ in PYTHONS else None
    return os.path.abspath(name) if type(name) is str else f"<{type(target).__name__}>"
