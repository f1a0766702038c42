"""Our own manifest: JSON lines. The first says what it is, and the totals; then one line a file."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any

from ...errors import UserError
from ...evidence.data import Listed, Manifest
from .. import files
from .places import folder_of, joined
from .records import digest, whole

KIND, VERSION = "manifest", 1
START = b'{"unstuck": "manifest"'
MEMBERS = b'"members":'
LONGEST = 256 << 20  # bytes of a line: a shard of 50 million members
AGAIN = "write it again with --write-manifest"


def is_ours(head: bytes) -> bool:
    return head.startswith(START)


def read(path: str) -> Manifest:
    """Without the digests of members, which may take more memory than there is: for those, `Members`."""
    rows = (_decoded(path, line, number) for number, (_, line) in enumerate(lines(path), 1))
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
        for number, (offset, line) in enumerate(lines(path), 1):
            if MEMBERS in line:
                lies[_listed(_decoded(path, line, number), folder).path] = (offset, len(line))
        self._lies = {file: lies[one.path] for file, one in listed.items() if one.path in lies}

    def __getitem__(self, file: str) -> bytes:
        offset, length = self._lies[file]
        with files.open_file(self._path) as raw:
            raw.seek(offset)
            return _unpacked(self._path, b"".join(pieces(raw, length)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._lies)

    def __len__(self) -> int:
        return len(self._lies)


def members(manifest: Manifest, listed: Mapping[str, Listed]) -> Mapping[str, bytes]:
    """What `Task.expected` wants; empty where the manifest is not ours."""
    with files.open_file(manifest.path) as file:
        ours = is_ours(file.read(len(START)))
    return Members(manifest.path, listed) if ours else {}


def pieces(raw: IO[bytes], length: int) -> Iterator[bytes]:
    """A raw file gives what it likes to at once."""
    while length > 0 and (data := raw.read(length)):
        length -= len(data)
        yield data


def lines(path: str) -> Iterator[tuple[int, bytes]]:
    """With the place of each. Raises UserError."""
    at = 0
    with io.BufferedReader(files.open_file(path), 1 << 20) as file:  # type: ignore[type-var]
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
