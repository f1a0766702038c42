"""One file, read to its end: the whole check of it, wherever it runs."""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

from ..errors import UserError
from ..evidence.data import DataFile
from . import source
from .foreign import foreign
from .formats import by_content, by_name
from .inflating import Missing
from .noting import Notes, Wish
from .reading import HEAD, Stream

MESSAGES = ("json", "jsonl")  # in which a server says why it does not give a file


class Checked(NamedTuple):
    """What is known of a file, with the digests that only a manifest wants."""

    file: DataFile
    digest: str = ""  # algorithm:hex, of all its bytes
    digests: array[int] = array("I")  # CRC-32 of each member


def check(path: str, wish: Wish, progress: Callable[[int], None] = lambda _: None, expected: bytes = b"") -> Checked:
    """Never raises for what is wrong with a file. `expected`: what a manifest has of its members."""
    try:
        known = source.look(path)
    except OSError as error:
        return Checked(DataFile(path, unread=_reason(error)))
    except UserError as error:
        return Checked(DataFile(path, unread=error.what))
    if known.other:
        return Checked(DataFile(path, other=known.other))
    notes, began = Notes(path, known.size, wish, progress, expected), time.perf_counter()
    facts: dict[str, object] = {"modified": known.modified}
    try:
        with source.opened(path) as raw:
            facts["cached"] = source.cached(raw, known.size)
            stream = Stream(raw, notes)
            facts["compression"] = stream.compression
            _read(stream, notes, facts)
    except Missing as error:
        facts["unread"] = str(error)
    except OSError as error:
        notes.fault("unreadable", f"reading it failed at byte {notes.read:,}: {_reason(error)}", at=notes.read)
    except MemoryError:
        notes.fault("unreadable", f"it asks for more memory than is allowed, at byte {notes.read:,}", at=notes.read)
    file = notes.file(**facts, seconds=time.perf_counter() - began)
    return Checked(file, notes.digest, notes.digests)


def _read(stream: Stream, notes: Notes, facts: dict[str, object]) -> None:
    found, named = by_content(stream.head), by_name(notes.path)
    if not notes.size and named is not None:
        facts["format"] = named.NAME
        notes.fault("empty", "the file has no bytes at all")
        return
    if found is not None and found.NAME in MESSAGES and named is not None and named.NAME not in MESSAGES:
        facts["format"] = named.NAME
        notes.fault("foreign", f"a JSON message stands here instead of {named.NAME}", at=0)
        return
    meant = found or named
    if meant is None or (found is None and foreign(stream.head, notes, meant.NAME)):
        facts["other"] = "" if notes.faulty else "no data format that is known"
        return
    facts["format"] = meant.NAME
    missing = _missing(meant)
    if missing:
        facts["unread"] = missing
    elif getattr(meant, "SEEKS", False) and stream.compression:
        facts["unread"] = f"{meant.NAME} compressed as a whole with {stream.compression}: nothing could read it so"
    elif notes.wish.whole:
        meant.read(stream, notes)
        _rest(stream, notes, seeks=getattr(meant, "SEEKS", False))
        gone = notes.gone()
        if gone:
            notes.fault("manifest", f"{gone:,} members that the manifest has are not there", lost=gone)
    elif hasattr(meant, "glance") and not stream.compression:
        meant.glance(stream.raw, notes)


def _rest(stream: Stream, notes: Notes, *, seeks: bool) -> None:
    """What its format did not need: a digest is of all bytes, and a compressed file is whole only to its last one."""
    spare = memoryview(bytearray(1 << 18))
    if not seeks:
        while stream.readinto(spare):
            pass
    elif notes.wish.algorithm:
        stream.raw.seek(HEAD)  # which was digested before
        while got := stream.raw.readinto(spare):  # type: ignore[attr-defined]
            notes.hash(spare[:got])


def _missing(meant: ModuleType) -> str:
    library = getattr(meant, "LIBRARY", "")
    return "" if not library or find_spec(library) else f"needs {library}: pip install 'unstuck[data]'"


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
