"""Our own manifest: JSON lines. The first says what it is, and the totals; then one line a file.

It is written while files are being read: in bounded memory, by order of paths, all of it or nothing.
"""

from __future__ import annotations

import base64
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import IO, Any

from ...errors import UserError
from ...evidence.data import Listed, Manifest
from ..check import Read
from ..files import is_address, may_write, open_file, replacing, unwritable
from .forms import digest, whole
from .places import folder_of, joined

KIND, VERSION = "manifest", 1
START = b'{"unstuck": "manifest"'
MEMBERS = b'"members":'
LONGEST = 256 << 20  # bytes of a line: a shard of 50 million members
AGAIN = "write it again with --write-manifest"


def is_own(head: bytes) -> bool:
    return head.startswith(START)


def read_own(path: str) -> Manifest:
    """Without the digests of members, which may take more memory than there is: for those, `Members`."""
    rows = (_decoded(path, line, number) for number, (_, line) in enumerate(_lines(path), 1))
    head = next(rows)
    if head.get("version") != VERSION:
        raise UserError(f"{path} is a manifest of version {head.get('version')}", "use the unstuck that wrote it")
    folder = folder_of(path)
    found = [_listed(row, folder) for row in rows if "path" in row]
    if len(found) != head.get("files"):
        raise UserError(f"{path} is cut off: it has {len(found):,} of {head.get('files')} files", AGAIN)
    samples = head.get("samples")
    return Manifest(path, found, samples if isinstance(samples, int) else None)


class Members(Mapping[str, bytes]):
    """The CRC-32 of each member of a file, four bytes each, by the path under which it is checked.

    They are read when they are asked for: of a billion members they would take 4 GB.
    """

    def __init__(self, path: str, listed: Mapping[str, Listed]) -> None:
        """`listed`: which entry speaks of which file, as `matched` gives it."""
        self._path = path
        folder, lies = folder_of(path), dict[str, tuple[int, int]]()
        for number, (offset, line) in enumerate(_lines(path), 1):
            if MEMBERS in line:
                lies[_listed(_decoded(path, line, number), folder).path] = (offset, len(line))
        self._lies = {file: lies[entry.path] for file, entry in listed.items() if entry.path in lies}

    def __getitem__(self, file: str) -> bytes:
        offset, length = self._lies[file]
        with open_file(self._path) as raw:
            raw.seek(offset)
            return _unpacked(self._path, b"".join(_pieces(raw, length)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._lies)

    def __len__(self) -> int:
        return len(self._lies)


def members(manifest: Manifest, listed: Mapping[str, Listed]) -> Mapping[str, bytes]:
    """What `Task.expected` wants; empty where the manifest is not ours."""
    with open_file(manifest.path) as file:
        is_ours = is_own(file.read(len(START)))
    return Members(manifest.path, listed) if is_ours else {}


def _pieces(raw: IO[bytes], length: int) -> Iterator[bytes]:
    """A raw file gives what it likes to at once."""
    while length > 0 and (data := raw.read(length)):
        length -= len(data)
        yield data


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """With the place of each. Raises UserError."""
    at = 0
    with io.BufferedReader(open_file(path), 1 << 20) as file:  # type: ignore[type-var]
        while line := file.readline(LONGEST):
            if len(line) == LONGEST:
                raise UserError(f"{path} has a line of more than {LONGEST >> 20} MiB, at byte {at:,}", AGAIN)
            yield at, line
            at += len(line)


def _listed(row: dict[str, Any], folder: str) -> Listed:
    place = joined(folder, str(row.get("path")))
    return Listed(place, whole(row.get("size")), whole(row.get("samples")), digest(row.get("digest")))


def _decoded(path: str, line: bytes, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UserError(f"line {number:,} of the manifest {path} is damaged", AGAIN)
    return found


def _unpacked(path: str, line: bytes) -> bytes:
    try:
        data = base64.b64decode(json.loads(line)["members"], validate=True)
    except (ValueError, KeyError, TypeError):
        data = b"?"
    if len(data) % 4:
        raise UserError(f"the digests of members in the manifest {path} are damaged", AGAIN)
    return data


class ManifestWriter:
    """`with ManifestWriter(path) as manifest: manifest.add(read)`. The file appears when all went well to the end."""

    def __init__(self, path: str, *, replace: bool = False) -> None:
        """Raises UserError where it cannot be written, or something else is there: before hours of reading."""
        may_write(path, is_own, "manifest of unstuck", replace=replace)
        self._path = path
        self._spool = _spool(path)
        self._lines: list[tuple[str, int, int]] = []  # path, offset, length
        self._samples: int | None = 0
        self._bytes = 0
        self._discarded = False

    def __enter__(self) -> ManifestWriter:  # noqa: PYI034
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


def _spool(path: str) -> IO[bytes]:
    """Nameless, and on the same disk: what does not fit there shows early."""
    try:
        return tempfile.TemporaryFile(dir=None if is_address(path) else os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise unwritable(path, error) from None


def _entry(read: Read, manifest: str) -> dict[str, Any]:
    file = read.file
    entry: dict[str, Any] = {"path": _relative(file.path, manifest), "size": file.size}
    if file.whole and file.samples is not None:
        entry["samples"] = file.samples
    if read.digest:
        entry["digest"] = read.digest
    if file.counts:
        entry["faults"] = sum(file.counts.values())
    if read.digests:
        entry["members"] = base64.b64encode(read.digests).decode()
    return entry


def _relative(path: str, manifest: str) -> str:
    """To the manifest's folder, so that both can be moved together."""
    if not is_address(path) and not is_address(manifest):
        return os.path.relpath(os.path.abspath(path), os.path.dirname(os.path.abspath(manifest)))
    return path.removeprefix(f"{folder_of(manifest)}/") if is_address(path) else os.path.abspath(path)
