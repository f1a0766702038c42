"""One file, or one folder, for each kind of data. A further one is a further file: nothing else has to be edited.

Every `Format` that stands in a module of this folder is found. What several of them share is here and in `columns.py`
and `arrow_source.py`.
"""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import IO, NamedTuple

from ..compression import ENDINGS, compression_of
from ..files import Stream
from ..notes import Notes, Wish

# How a member of an archive is packed, which those who read it unpack (.json.gz). None begins any text in UTF-8.
PACKED = ("gzip", "xz", "zstd")


class Format(NamedTuple):
    """How files of one format are known and read."""

    name: str  # as users call it
    endings: tuple[str, ...]  # of file names by which it is meant to be known
    claims: Callable[[bytes], bool]  # whether the first 4096 bytes (decompressed) are of this format
    # Reads it to its end and notes what is wrong, what it holds, and what it counted.
    read: Callable[[Stream, Notes], None]
    # If there is something to learn from its ends alone: for a look at files that are not read whole.
    glance: Callable[[IO[bytes], Notes], None] | None = None
    # If it can be a member of an archive: decodes it, and gives what is wrong in a few words, or nothing.
    decoded: Callable[[bytes | memoryview], str] | None = None
    fault: str = "undecodable"  # the kind that is noted where `decoded` finds something
    seeks: bool = False  # it needs the file itself (`stream.raw`): then it cannot be compressed as a whole
    part: bool = False  # it is only ever a part of a sample: a text file by itself is nothing that can be judged
    library: str = ""  # without it, a file of this format stays unread, and the user is told
    order: int = 0  # it is asked earlier (below 0) or later (above 0) than others


@cache
def formats() -> list[Format]:
    modules = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, Format)}
    return sorted(found, key=lambda kind: (kind.order, kind.name))


def by_content(head: bytes) -> Format | None:
    return next((kind for kind in formats() if kind.claims(head)), None)


def by_name(path: str, *, part: bool = False) -> Format | None:
    """What a file is meant to be, where its content does not say; `part`: it is a part of a sample."""
    known = [kind for kind in formats() if part or not kind.part]
    return next((kind for kind in known for ending in _endings(path) if ending in kind.endings), None)


def of_member(name: str, head: bytes) -> Format | None:
    """What a member of an archive is: by its name, which is what training goes by, else by its content."""
    return by_name(name, part=True) or by_content(head)


def _endings(path: str) -> Iterator[str]:
    """`.tar.gz`: .gz, then .tar."""
    name, last = os.path.splitext(path.rpartition("/")[2].lower())
    yield last
    if last in ENDINGS:
        yield os.path.splitext(name)[1]


def is_packed(data: bytes | memoryview) -> bool:
    """Whether a member of an archive is compressed once more."""
    return compression_of(bytes(data[:64])) in PACKED


def first_fault(read: Callable[[Stream, Notes], None], data: bytes | memoryview) -> str:
    """What is wrong with a member of an archive, read as if it stood alone; or nothing."""
    notes = Notes("", len(data), Wish(decode=True))
    if not len(data):
        return "it is empty (0 bytes)"
    read(Stream(io.BytesIO(data), notes), notes)
    faults = notes.file().faults
    return faults[0].what if faults else ""
