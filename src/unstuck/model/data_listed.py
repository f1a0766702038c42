"""What a manifest says of which file, and what it lists that is not there."""

from __future__ import annotations

from .checked import Data, Listed
from .data_matching import matched
from .data_names import folder_of
from .evidence import Evidence


def listed(evidence: Evidence) -> dict[str, Listed]:
    """Entries by the file they speak of."""
    data = evidence.data
    if data is None or data.manifest is None:
        return {}
    return matched(data.manifest, [one.path for one in data.files])


def absent(evidence: Evidence) -> list[Listed]:
    """Listed and not there: nothing was found at its path, or a folder that was read as a whole has not got it."""
    data = evidence.data
    if data is None or data.manifest is None or data.stopped:
        return []
    entries = listed(evidence)
    known, gone = {one.path for one in entries.values()}, set(data.absent)
    summed_up = {one.path for one in data.folders}  # files of these are not known one by one
    # Folders of the manifest, by where their files are now: data is moved, and lists are kept elsewhere.
    moved = {folder_of(one.path): folder_of(path) for path, one in entries.items()}
    return [
        one
        for one in data.manifest.files
        if one.path not in known
        and (one.path in gone or _belongs(moved.get(folder_of(one.path), folder_of(one.path)), summed_up, data))
    ]


def _belongs(folder: str, summed_up: set[str], data: Data) -> bool:
    """It, or a folder that it lies in, was asked for as a whole."""
    inside = any(f"{folder}/".startswith(f"{one.rstrip('/')}/") or one in (".", "./") for one in data.asked.paths)
    return inside and folder not in summed_up
