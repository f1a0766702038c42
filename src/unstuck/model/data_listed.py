"""What a manifest says of which file, and what it lists that is not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from .checked import Data, Listed
from .data_names import folder_of
from .evidence import Evidence


def listed(evidence: Evidence) -> dict[str, Listed]:
    """Entries by the file they speak of.

    By path; else by the end of it, by its last part, by that without endings. The first of these ways that matches
    anything holds for all: two files with the same last part are not to be taken for each other.
    """
    data = evidence.data
    if data is None or data.manifest is None:
        return {}
    entries = {one.path: one for one in data.manifest.files}
    for way in (os.path.normpath, _end, _name, _stem):
        known, files = _unique(entries, way), _unique((one.path for one in data.files), way)
        found = {path: entries[known[key]] for key, path in files.items() if key in known}
        if found:
            return found
    return {}


def absent(evidence: Evidence) -> list[Listed]:
    """Listed and not there: nothing was found at its path, or a folder that was read as a whole has not got it."""
    data = evidence.data
    if data is None or data.manifest is None or data.stopped:
        return []
    known, gone = {one.path for one in listed(evidence).values()}, set(data.absent)
    summed_up = {one.path for one in data.folders}  # files of these are not known one by one
    return [
        one
        for one in data.manifest.files
        if one.path not in known
        and (one.path in gone or (folder_of(one.path) not in summed_up and _asked_for(one.path, data)))
    ]


def _asked_for(path: str, data: Data) -> bool:
    """A folder that it belongs to was asked for."""
    return any(path.startswith(f"{one.rstrip('/')}/") for one in data.asked.paths)


def _unique(paths: Iterable[str], way: Callable[[str], str]) -> dict[str, str]:
    """Paths, by what is compared; without what stands there twice."""
    found: dict[str, str] = {}
    twice = set()
    for path in paths:
        key = way(path)
        if found.setdefault(key, path) != path:
            twice.add(key)
    return {key: path for key, path in found.items() if key not in twice}


def _end(path: str) -> str:
    return "/".join(os.path.normpath(path).rsplit("/", 2)[-2:])


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    return _name(path).partition(".")[0]
