"""One file, read to its end: the whole check of it, wherever it runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.util import find_spec

import msgspec

from ..errors import UserError
from ..evidence.data import DataFile
from .compression import MissingLibrary
from .files import HEAD, Stream, cached_share, file_stat, open_file
from .formats import Format, by_content, by_name
from .notes import Notes, Wish

MESSAGES = ("json", "jsonl")  # in which a server says why it does not give a file
LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class Read(msgspec.Struct, tag="read"):
    """What is known of a file that was read, with the digests that only a manifest wants."""

    file: DataFile
    digest: str = ""  # algorithm:hex, of all its bytes
    digests: bytes = b""  # CRC-32 of each member, four bytes each


def check(path: str, wish: Wish, progress: Callable[[int], None] = lambda _: None, expected: bytes = b"") -> Read:
    """Never raises for what is wrong with a file. `expected`: what a manifest has of its members."""
    try:
        known = file_stat(path)
    except OSError as error:
        return Read(DataFile(path, unread=_reason(error)))
    except UserError as error:
        return Read(DataFile(path, unread=error.what))
    if known.other:
        return Read(DataFile(path, other=known.other))
    notes, began = Notes(path, known.size, wish, progress, expected), time.perf_counter()
    facts: dict[str, object] = {"modified": known.modified}
    try:
        with open_file(path) as raw:
            facts["cached"] = cached_share(raw, known.size)
            stream = Stream(raw, notes)
            facts["compression"] = stream.compression
            _read(stream, notes, facts)
    except MissingLibrary as error:
        facts["unread"] = str(error)
    except OSError as error:
        notes.fault("unreadable", f"read error at byte {notes.read:,}: {_reason(error)}", at=notes.read)
    except MemoryError:
        notes.fault(
            "unreadable", f"read error at byte {notes.read:,}: it asks for more memory than allowed", at=notes.read
        )
    file = notes.file(**facts, seconds=time.perf_counter() - began)
    return Read(file, notes.digest, notes.digests.tobytes())


def _read(stream: Stream, notes: Notes, facts: dict[str, object]) -> None:
    found, named = by_content(stream.head), by_name(notes.path)
    if not notes.size and named is not None:
        facts["format"] = named.name
        notes.fault("empty", "the file is empty (0 bytes)")
        return
    if found is not None and found.name in MESSAGES and named is not None and named.name not in MESSAGES:
        facts["format"] = named.name
        notes.fault("foreign", f"a JSON message instead of {named.name}", at=0)
        return
    meant = found or named
    if meant is None or (found is None and _is_foreign(stream.head, notes, meant.name)):
        facts["other"] = "" if notes.faulty else "no data format that is known"
        return
    facts["format"] = meant.name
    missing = _missing(meant)
    if missing:
        facts["unread"] = missing
    elif meant.seeks and stream.compression:
        facts["unread"] = f"{meant.name} compressed as a whole with {stream.compression}: nothing could read it so"
    elif notes.wish.whole:
        meant.read(stream, notes)
        _rest(stream, notes, seeks=meant.seeks)
        gone = notes.gone()
        if gone:
            notes.fault("manifest", f"{gone:,} members that the manifest lists are missing", lost=gone)
    elif meant.glance is not None and not stream.compression:
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


def _missing(meant: Format) -> str:
    if not meant.library or find_spec(meant.library):
        return ""
    return f"needs {meant.library}: pip install 'unstuck[data]'"


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__


def _is_foreign(head: bytes, notes: Notes, meant: str) -> bool:
    """Whether it is something else altogether: then it is noted."""
    start = head.lstrip()[:200].lower()
    if head.startswith(LFS_POINTER):
        notes.fault("foreign", f"a Git LFS pointer instead of {meant}: the data was never fetched", at=0)
    elif start.startswith((b"<!doctype html", b"<html")):
        notes.fault("foreign", f"a web page instead of {meant}", at=0)
    elif start.startswith((b"<?xml", b"<error")):
        notes.fault("foreign", f"an XML message instead of {meant}", at=0)
    else:
        return False
    return True
