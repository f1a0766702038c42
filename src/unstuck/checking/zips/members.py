"""The data of one member of a zip archive, in pieces, against its size and its checksum."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from ...wording.text import size
from ..broken import Broken
from ..compression import RATIO, ROOM
from .directory import Entry, Places

HEADER = struct.Struct("<4s5H3L2H")
PIECE = 1 << 20
STORED, DEFLATED = 0, 8
RARE = (9, 12, 14, 93)  # other compressions, some of which some readers know: they are not looked into
ENCRYPTED, PATCHED, NEWEST = 0x41, 0x20, 63


def closed(entry: Entry) -> str:
    """Why no reader could look into it: none of this is damage, unless nobody writes such members."""
    if entry.flags & ENCRYPTED:
        return "it is encrypted"
    if entry.version > NEWEST or entry.flags & PATCHED:
        return "it is of a version of zip that no reader knows"
    return (
        "" if entry.method in (STORED, DEFLATED, *RARE) else f"it is compressed with an unknown method, {entry.method}"
    )


def readable(entry: Entry) -> bool:
    return entry.method in (STORED, DEFLATED) and not closed(entry)


def start_of(places: Places, entry: Entry, limit: int) -> int:
    """Where its data begins, if it ends before `limit` and is no bomb. Raises Broken."""
    data = places.read(entry.at, HEADER.size + len(entry.raw_name))
    if len(data) < HEADER.size or data[:4] != b"PK\3\4":
        raise Broken("damaged", f"no member begins at byte {entry.at:,}, where the directory has this one", entry.at)
    *_, named, extra = HEADER.unpack_from(data)
    if data[HEADER.size :] != entry.raw_name or named != len(entry.raw_name):
        raise Broken("damaged", "its own header has another name than the directory", entry.at)
    start: int = entry.at + HEADER.size + named + extra
    if start + entry.packed > limit:
        raise Broken("damaged", f"its {entry.packed:,} bytes would reach into the directory", start)
    if entry.size > ROOM and entry.size > RATIO * entry.packed:
        raise Broken("hostile", f"its {entry.packed:,} bytes become {size(entry.size)}: a bomb, not unpacked", start)
    return start


def pieces(places: Places, entry: Entry, start: int) -> Iterator[bytes]:
    """Raises Broken, with the place where its data begins: a checksum does not say more."""
    crc = total = 0
    for piece in _inflated(places, entry, start) if entry.method == DEFLATED else _stored(places, entry, start):
        crc, total = zlib.crc32(piece, crc), total + len(piece)
        if total > entry.size:
            break
        yield piece
    if total != entry.size:
        more = "more than " if total > entry.size else ""
        raise Broken("damaged", f"the directory gives it {entry.size:,} bytes; it has {more}{total:,}", start)
    if crc != entry.crc and entry.crc:  # torch saves without checksums if it is told to: then each is 0
        raise Broken("damaged", f"its {entry.size:,} bytes do not agree with its checksum", start)


def _stored(places: Places, entry: Entry, start: int) -> Iterator[bytes]:
    at, until = start, start + entry.packed
    while at < until and (piece := places.read(at, min(PIECE, until - at))):
        at += len(piece)
        yield piece


def _inflated(places: Places, entry: Entry, start: int) -> Iterator[bytes]:
    machine, held = zlib.decompressobj(wbits=-15), b""
    packed = _stored(places, entry, start)
    while not machine.eof:
        held = machine.unconsumed_tail or next(packed, b"")
        try:
            piece = machine.decompress(held, PIECE)
        except zlib.error as error:
            words = str(error).partition(": ")[2] or str(error)
            raise Broken("damaged", f"its compressed data is damaged: {words}", start) from error
        if not piece and not held:
            raise Broken("damaged", "its compressed data breaks off", start)
        yield piece
