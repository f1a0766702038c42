"""Puts together what readers saw: files of which something is to be said, folders of the rest, how fast it all came."""

from __future__ import annotations

import os

import msgspec

from ..evidence.data import DataFile, Fault, Folder, Listed, Speed
from .messages import Read

SINGLE = ("image", "npy", "json", "text")  # formats of which one file is one sample: there may be millions
COLD, WARM = 0.1, 0.9  # shares of a file that were in memory before it was read
LONG = 1 << 20  # bytes of files whose speed counts: of small ones, opening them is what takes time


class Collection:
    """Everything that was read so far."""

    def __init__(self, listed: dict[str, Listed]) -> None:
        self.files: list[DataFile] = []
        self._listed = listed
        self._folders: dict[tuple[str, str], list[int]] = {}
        self._speeds: dict[str, list[float]] = {}

    def add(self, read: Read) -> DataFile:
        file = self._compared(read)
        if file.read >= LONG and file.reading:
            kind = _kind(file.cached)
            own = self._speeds.setdefault(kind, [0, 0, 0.0])
            own[0], own[1], own[2] = own[0] + 1, own[1] + file.read, own[2] + file.reading
        if file.format in SINGLE and not file.faults and not file.unread:
            own_folder = self._folders.setdefault((os.path.dirname(file.path), file.format), [0, 0])
            own_folder[0] += 1
            own_folder[1] += file.size
        else:
            self.files.append(file)
        return file

    def _compared(self, read: Read) -> DataFile:
        """With what a manifest says of the whole of it, where nothing else is known to be wrong."""
        listed = self._listed.get(read.file.path)
        if listed is None or not listed.digest or not read.digest or read.file.faults:
            return read.file
        if listed.digest.lower() == read.digest:
            return read.file
        name, _, there = listed.digest.partition(":")
        what = f"its {name} is {read.digest.partition(':')[2]}, and the manifest has {there}: it was altered since"
        return msgspec.structs.replace(
            read.file, faults=[*read.file.faults, Fault("manifest", what)], counts={**read.file.counts, "manifest": 1}
        )

    def folders(self) -> list[Folder]:
        return [Folder(path, kind, count, size) for (path, kind), (count, size) in sorted(self._folders.items())]

    def speeds(self) -> list[Speed]:
        return [Speed(kind, int(n), int(size), took) for kind, (n, size, took) in sorted(self._speeds.items())]

    def sorted(self) -> list[DataFile]:
        return sorted(self.files, key=lambda one: one.path)


def _kind(cached: float | None) -> str:
    if cached is None:
        return "unknown"
    return "cold" if cached <= COLD else "warm" if cached >= WARM else "mixed"
