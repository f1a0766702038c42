"""Zip archives: of any kind, also those that torch.save writes, and npz, which has an array in each member.

The directory stands at the end and says where every member is. Each member is read, against its size and its checksum.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, NamedTuple

from ...wording.printable import shortened
from ...wording.text import size
from ..compression import RATIO, ROOM
from ..files import Stream
from ..notes import Broken, Notes
from . import Format, first_fault, of_member
from .arrays import LONGEST_HEADER, array_of
from .text import TEXT

MOST = 256 << 20  # bytes of a member that is decoded
ARRAY_START = LONGEST_HEADER + 12
END = struct.Struct("<4s4H2LH")
LOCATOR = struct.Struct("<4sLQL")
END64 = struct.Struct("<4sQ2H2L4Q")
ENTRY = struct.Struct("<4s6H3L5H2L")
COMMENT = 1 << 16  # bytes that may stand behind the end record
HEADER = struct.Struct("<4s5H3L2H")
PIECE = 1 << 20
LARGE = 0xFFFFFFFF  # stands for: see the 64-bit field
STORED, DEFLATED = 0, 8
RARE = (9, 12, 14, 93)  # other compressions, some of which some readers know: they are not looked into
ENCRYPTED, PATCHED, NEWEST = 0x41, 0x20, 63


def _claims_zip(head: bytes) -> bool:
    return head.startswith((b"PK\3\4", b"PK\5\6"))


def _read_zip(stream: Stream, notes: Notes) -> None:
    decoder = _MemberDecoder(decode=notes.wish.decode)
    _read_members(stream.raw, notes, decoder.look)
    notes.facts(decoded=decoder.decoded)


class _MemberDecoder:
    """Decodes members, if that is asked for."""

    def __init__(self, *, decode: bool) -> None:
        self._decode = decode
        self.decoded = 0

    def look(self, entry: _Entry, data: Iterator[bytes]) -> None:
        if not self._decode or entry.size > MOST:
            for _ in data:
                pass
            return
        whole = b"".join(data)
        kind = of_member(entry.name, whole[:4096])
        if (
            kind is None or kind.decoded is None or kind is TEXT or entry.name.endswith("/")
        ):  # a licence may be in any encoding
            return
        problem = kind.decoded(whole)
        self.decoded += 1
        if problem:
            raise Broken(kind.fault, f"cannot be decoded: {problem}", entry.at)


def _claims_npz(head: bytes) -> bool:
    """Its first member is an array: many other things are zip archives."""
    named = int.from_bytes(head[26:28], "little")
    return head.startswith(b"PK\3\4") and head[30 : 30 + named].endswith(b".npy")


def _read_npz(stream: Stream, notes: Notes) -> None:
    _read_members(stream.raw, notes, _look_at_array, open_=True)


def _look_at_array(entry: _Entry, data: Iterator[bytes]) -> None:
    start = b""
    for piece in data:
        start += piece[: ARRAY_START - len(start)]
    if not entry.raw_name.endswith(b".npy"):
        return
    found = array_of(start)
    have = entry.size - found.header
    if found.data is not None and found.data != have:
        raise Broken("damaged", f"its array of {found.words} has {found.data:,} bytes; {have:,} are there", entry.at)


def _glance(raw: IO[bytes], notes: Notes) -> None:
    """Its directory only."""
    file = _RandomAccess(raw, notes)
    try:
        notes.facts(members=sum(1 for _ in _entries(file, _directory(file))))
    except Broken as broken:
        notes.fault(broken.kind, broken.what, at=broken.at)


def _read_members(
    raw: IO[bytes], notes: Notes, look: Callable[[_Entry, Iterator[bytes]], None], *, open_: bool = False
) -> None:
    """`look` gets each member and its data, takes all of it, and raises Broken where it is not what it should be.

    `open_`: whoever writes such archives never encrypts: what cannot be looked into is damage.
    """
    try:
        _Archive(_RandomAccess(raw, notes), notes, look, open_=open_).read()
    except Broken as broken:
        notes.fault(broken.kind, broken.what, at=broken.at)


class _Archive:
    """What was seen so far: where members begin and end, for no byte belongs to two of them."""

    def __init__(
        self, file: _RandomAccess, notes: Notes, look: Callable[[_Entry, Iterator[bytes]], None], *, open_: bool
    ) -> None:
        self._file, self._notes, self._look, self._open = file, notes, look, open_
        self._starts, self._ends = array("Q"), array("Q")
        self._taken = 0

    def read(self) -> None:
        found = _directory(self._file)
        for entry in _entries(self._file, found):
            self._take(entry)
            self._look_at_name(entry)
            self._member(entry, found)
        self._notes.facts(members=len(self._starts))
        if not self._starts:
            raise Broken("no-rows", "the archive has no members")
        if _overlap(self._starts, self._ends):
            raise Broken("hostile", "its members share bytes of the file: no writer does that")
        if found.behind:
            at = self._file.size - found.behind
            raise Broken("damaged", f"{found.behind:,} bytes follow its end, at byte {at:,}", at)

    def _take(self, entry: _Entry) -> None:
        self._starts.append(entry.at)
        self._ends.append(entry.at + HEADER.size + entry.packed)
        self._taken += HEADER.size + entry.packed
        if self._taken > self._file.size:
            what = f"its first {len(self._starts):,} members have {self._taken:,} bytes, more than the file itself"
            raise Broken("hostile", f"{what}: they share them, or their sizes lie", entry.at)

    def _look_at_name(self, entry: _Entry) -> None:
        name = entry.name
        if name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
            what = f"{shortened(name)} would be unpacked outside its folder"
        elif any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
            what = f"the name {shortened(name)} has control characters"
        else:
            return
        self._notes.fault("hostile", what, member=name, at=entry.at)

    def _member(self, entry: _Entry, found: _Directory) -> None:
        try:
            start = _start_of(self._file, entry, found.at)
            if self._open and _closed(entry):
                self._note(entry, Broken("damaged", _closed(entry), start))
            elif _is_readable(entry):
                self._look(entry, _pieces(self._file, entry, start))
        except Broken as broken:
            self._note(entry, broken)

    def _note(self, entry: _Entry, broken: Broken) -> None:
        what, end = f"{shortened(entry.name)}: {broken.what}", entry.at + HEADER.size + entry.packed
        self._notes.fault(broken.kind, what, member=entry.name, at=broken.at, until=end, lost=1)


def _overlap(starts: array[int], ends: array[int]) -> bool:
    import numpy as np

    order = np.argsort(starts)
    return bool((np.asarray(ends)[order][:-1] > np.asarray(starts)[order][1:]).any())


class _Directory(NamedTuple):
    """Where it is, and how many members it announces."""

    at: int
    size: int
    entries: int
    shift: int  # bytes in front of the archive that its offsets do not count
    behind: int  # bytes behind its end


class _Entry(NamedTuple):
    """One member."""

    raw_name: bytes
    version: int  # of the format, ten times
    flags: int
    method: int
    crc: int
    packed: int  # bytes in the archive
    size: int
    at: int  # of its own header

    @property
    def name(self) -> str:
        return self.raw_name.decode("utf-8" if self.flags & 0x800 else "cp437", "replace")


class _RandomAccess:
    """A file of which bytes are wanted here and there. What is read is counted."""

    def __init__(self, raw: IO[bytes], notes: Notes) -> None:
        self._raw, self._notes, self.size = raw, notes, notes.size

    def read(self, at: int, count: int) -> bytes:
        """Up to so many."""
        self._raw.seek(at)
        data = self._raw.read(count) or b""
        self._notes.moved(len(data))
        return data


def _directory(file: _RandomAccess) -> _Directory:
    """Raises Broken."""
    start = max(0, file.size - END.size - COMMENT)
    tail = file.read(start, END.size + COMMENT)
    place = tail.rfind(b"PK\5\6", 0, len(tail) - END.size + 4)
    if place < 0:
        raise Broken(
            "cut", f"its directory, at the end of the file, is missing: {file.size:,} bytes are there", file.size
        )
    _, _, _, _, entries, size, at, comment = END.unpack_from(tail, place)
    record = start + place
    behind = file.size - record - END.size - comment
    wide = _wide(file, record)
    if wide is not None:
        record, entries, size, at = wide
    shift = record - size - at
    if shift < 0 or size < entries % (1 << 16) * ENTRY.size:
        raise Broken(
            "damaged", f"its end puts the directory at byte {at:,} with {size:,} bytes; it is not there", record
        )
    return _Directory(at + shift, size, entries, shift, behind)


def _wide(file: _RandomAccess, end: int) -> tuple[int, int, int, int] | None:
    """Of an archive that is too large for the fields of 32 bits, or whose writer did not know: what stands there."""
    if end < LOCATOR.size:
        return None
    found = file.read(end - LOCATOR.size, LOCATOR.size)
    if found[:4] != b"PK\6\7":
        return None
    at = end - LOCATOR.size - END64.size  # where it always is; its announced offset does not count what was put before
    data = file.read(at, END64.size) if at >= 0 else b""
    if data[:4] != b"PK\6\6":
        raise Broken("damaged", f"the end of its directory, at byte {at:,}, is corrupt", at)
    *_, entries, size, offset = END64.unpack(data)
    return at, entries, size, offset


def _entries(file: _RandomAccess, found: _Directory) -> Iterator[_Entry]:
    """One after the other; the directory itself is never held as a whole. Raises Broken."""
    at, until, count = found.at, found.at + found.size, 0
    while at < until:
        data, used = file.read(at, min(PIECE, until - at)), 0
        while used + ENTRY.size <= len(data) and data.startswith(b"PK\1\2", used):
            fields = ENTRY.unpack_from(data, used)
            end = used + ENTRY.size + sum(fields[10:13])
            if end > len(data):
                break
            yield _entry(fields, data[used + ENTRY.size : end], found.shift)
            used, count = end, count + 1
        if not used:
            raise Broken("damaged", f"its directory is corrupt at byte {at:,}, after {count:,} of its members", at)
        at += used
    if count & 0xFFFF != found.entries & 0xFFFF:
        raise Broken("damaged", f"its directory declares {found.entries:,} members and lists {count:,}", found.at)


def _entry(fields: tuple[int, ...], rest: bytes, shift: int) -> _Entry:
    _, _, version, flags, method, _, _, crc, packed, size, named, extra, *_, at = fields
    if LARGE in (packed, size, at):
        size, packed, at = _wide_fields(rest[named : named + extra], [size, packed, at])
    name = rest[:named]
    return _Entry(name, version & 0xFF, flags, method, crc, packed, size, at + shift)


def _wide_fields(extra: bytes, fields: list[int]) -> list[int]:
    """Of those that do not fit, the real value stands in an extra field, in this order."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<2H", extra)
        values = [number[0] for number in struct.iter_unpack("<Q", extra[4 : 4 + length - length % 8])]
        if kind == 1:
            return [values.pop(0) if field == LARGE and values else field for field in fields]
        extra = extra[4 + length :]
    return fields


def _closed(entry: _Entry) -> str:
    """Why no reader could look into it: none of this is damage, unless nobody writes such members."""
    if entry.flags & ENCRYPTED:
        return "it is encrypted"
    if entry.version > NEWEST or entry.flags & PATCHED:
        return "it is of a version of zip that no reader knows"
    return (
        "" if entry.method in (STORED, DEFLATED, *RARE) else f"it is compressed with an unknown method, {entry.method}"
    )


def _is_readable(entry: _Entry) -> bool:
    return entry.method in (STORED, DEFLATED) and not _closed(entry)


def _start_of(file: _RandomAccess, entry: _Entry, limit: int) -> int:
    """Where its data begins, if it ends before `limit` and is no bomb. Raises Broken."""
    data = file.read(entry.at, HEADER.size + len(entry.raw_name))
    if len(data) < HEADER.size or data[:4] != b"PK\3\4":
        raise Broken("damaged", f"no member begins at byte {entry.at:,}, where the directory has this one", entry.at)
    *_, named, extra = HEADER.unpack_from(data)
    if data[HEADER.size :] != entry.raw_name or named != len(entry.raw_name):
        raise Broken("damaged", "its own header has another name than the directory", entry.at)
    start: int = entry.at + HEADER.size + named + extra
    if start + entry.packed > limit:
        raise Broken("damaged", f"its {entry.packed:,} bytes would reach into the directory", start)
    if entry.size > ROOM and entry.size > RATIO * entry.packed:
        raise Broken("hostile", f"its {entry.packed:,} bytes expand to {size(entry.size)}: a bomb, not unpacked", start)
    return start


def _pieces(file: _RandomAccess, entry: _Entry, start: int) -> Iterator[bytes]:
    """Raises Broken, with the place where its data begins: a checksum does not say more."""
    crc = total = 0
    for piece in _inflated(file, entry, start) if entry.method == DEFLATED else _stored(file, entry, start):
        crc, total = zlib.crc32(piece, crc), total + len(piece)
        if total > entry.size:
            break
        yield piece
    if total != entry.size:
        more = "more than " if total > entry.size else ""
        raise Broken("damaged", f"the directory gives it {entry.size:,} bytes; it has {more}{total:,}", start)
    if crc != entry.crc and entry.crc:  # torch saves without checksums if it is told to: then each is 0
        raise Broken("damaged", f"its {entry.size:,} bytes do not match its checksum", start)


def _stored(file: _RandomAccess, entry: _Entry, start: int) -> Iterator[bytes]:
    at, until = start, start + entry.packed
    while at < until and (piece := file.read(at, min(PIECE, until - at))):
        at += len(piece)
        yield piece


def _inflated(file: _RandomAccess, entry: _Entry, start: int) -> Iterator[bytes]:
    machine, held = zlib.decompressobj(wbits=-15), b""
    packed = _stored(file, entry, start)
    while not machine.eof:
        held = machine.unconsumed_tail or next(packed, b"")
        try:
            piece = machine.decompress(held, PIECE)
        except zlib.error as error:
            words = str(error).partition(": ")[2] or str(error)
            raise Broken("damaged", f"its compressed data is corrupt: {words}", start) from error
        if not piece and not held:
            raise Broken("damaged", "its compressed data is truncated", start)
        yield piece


ZIP = Format("zip", (".zip",), _claims_zip, _read_zip, _glance, seeks=True, order=1)  # npz is asked before
NPZ = Format("npz", (".npz",), _claims_npz, _read_npz, _glance, partial(first_fault, _read_npz), seeks=True)
