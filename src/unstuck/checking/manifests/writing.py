"""Writes our own manifest while files are being read: in bounded memory, by order of paths, all of it or nothing."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Any

from .. import files
from ..check import Read
from ..files import may_write, replacing, unwritable
from .ours import KIND, VERSION, is_ours
from .places import folder_of


class Writing:
    """`with Writing(path) as manifest: manifest.add(read)`. The file appears when that is over and all went well."""

    def __init__(self, path: str, *, replace: bool = False) -> None:
        """Raises UserError where it cannot be written, or something else is there: before hours of reading."""
        may_write(path, is_ours, "manifest of unstuck", replace=replace)
        self._path = path
        self._spool = _spool(path)
        self._lines: list[tuple[str, int, int]] = []  # path, offset, length
        self._samples: int | None = 0
        self._bytes = 0
        self._discarded = False

    def __enter__(self) -> Writing:  # noqa: PYI034
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._spool:
            if kind is None and not self._discarded:
                self._finish()

    def discard(self) -> None:
        """It was not read to the end: half a manifest would say that the rest is not there."""
        self._discarded = True

    def add(self, read: Read) -> None:
        """What is no data, or could not be read, has no place in it."""
        file = read.file
        if file.unread or file.other:
            return
        line = json.dumps(_entry(read, self._path), separators=(",", ":")).encode() + b"\n"
        self._lines.append((file.path, self._spool.tell(), len(line)))
        try:
            self._spool.write(line)
        except OSError as error:
            raise unwritable(self._path, error) from None
        known = file.samples if file.whole else None
        self._samples = None if known is None or self._samples is None else self._samples + known
        self._bytes += file.size

    def _finish(self) -> None:
        head = {"unstuck": KIND, "version": VERSION, "files": len(self._lines), "bytes": self._bytes}
        with replacing(self._path) as file:
            file.write(json.dumps({**head, "samples": self._samples}).encode() + b"\n")
            for _, offset, length in sorted(self._lines):
                self._spool.seek(offset)
                file.write(self._spool.read(length))


def write(path: str, reads: Iterable[Read], *, replace: bool = False) -> None:
    with Writing(path, replace=replace) as manifest:
        for read in reads:
            manifest.add(read)


def _spool(path: str) -> IO[bytes]:
    """Nameless, and on the same disk: what does not fit there shows early."""
    try:
        return tempfile.TemporaryFile(dir=None if files.is_address(path) else os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise unwritable(path, error) from None


def _entry(read: Read, manifest: str) -> dict[str, Any]:
    file = read.file
    said: dict[str, Any] = {"path": _relative(file.path, manifest), "size": file.size}
    if file.whole and file.samples is not None:
        said["samples"] = file.samples
    if read.digest:
        said["digest"] = read.digest
    if file.counts:
        said["faults"] = sum(file.counts.values())
    if read.digests:
        said["members"] = base64.b64encode(read.digests).decode()
    return said


def _relative(path: str, manifest: str) -> str:
    """To the manifest's folder, so that both can be moved together."""
    if not files.is_address(path) and not files.is_address(manifest):
        return os.path.relpath(os.path.abspath(path), os.path.dirname(os.path.abspath(manifest)))
    return path.removeprefix(f"{folder_of(manifest)}/") if files.is_address(path) else os.path.abspath(path)
