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
