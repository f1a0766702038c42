"""Which line of a manifest speaks of which file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from .checked import Listed, Manifest


def matched(manifest: Manifest, files: Iterable[str]) -> dict[str, Listed]:
    """By path; else by the end of it, by its last part, by that without endings.

    The first of these ways that matches anything holds for all: a file that is missing and another that was added
    are not to be taken for each other because their last parts are the same.
    """
    checked = list(files)
    for way in (_path, _end, _name, _stem):
        known, unique = _unique((one.path for one in manifest.files), way), _unique(checked, way)
        found = {checked[number]: manifest.files[known[key]] for key, number in unique.items() if key in known}
        if found:
            return found
    return {}


def _unique(paths: Iterable[str], way: Callable[[str], str]) -> dict[str, int]:
    """Positions, by what is compared; without what stands there twice."""
    found: dict[str, int] = {}
    twice = set()
    for number, path in enumerate(paths):
        key = way(path)
        if found.setdefault(key, number) != number:
            twice.add(key)
    return {key: number for key, number in found.items() if key not in twice}


def _path(path: str) -> str:
    return path if "://" in path.removeprefix("file://") else os.path.abspath(path.removeprefix("file://"))


def _end(path: str) -> str:
    return "/".join(_path(path).rsplit("/", 2)[-2:])


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    return _name(path).partition(".")[0]
