"""Images, in files of their own or in archives. Their structure is always looked at; to decode them is asked for."""

from __future__ import annotations

from ...wording.text import size
from ..broken import Broken
from ..images.decoding import can_decode
from ..images.structure import known, look
from ..images.zeroed import zeroed
from ..noting import Notes
from ..reading import Stream

NAME = "image"
ENDINGS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
FAULT = "image"
MOST = 256 << 20  # bytes of an image that is held: larger ones are maps, which are read in parts
PIECE = 1 << 18


def claims(head: bytes) -> bool:
    return known(head)


def read(stream: Stream, notes: Notes) -> None:
    data = _all(stream)
    if len(data) > MOST:
        notes.facts(unread=f"an image of more than {size(MOST)}: it is not held in memory to be looked at")
        return
    notes.facts(samples=1)
    place = zeroed(data)
    if place is not None:
        notes.fault("zeros", f"zeros stand from byte {place:,} on, where the picture should be", at=place, lost=1)
        return
    try:
        look(data, decoding=notes.wish.decode)
    except Broken as broken:
        if not notes.broken:
            notes.fault(broken.kind, broken.what, at=broken.at, lost=1)
    notes.facts(decoded=int(notes.wish.decode and can_decode()))


def _all(stream: Stream) -> bytes:
    parts, have, buffer = [], 0, memoryview(bytearray(PIECE))
    while have <= MOST and (got := stream.readinto(buffer)):
        parts.append(bytes(buffer[:got]))
        have += got
    return b"".join(parts)


def decoded(data: bytes | memoryview) -> str:
    try:
        look(bytes(data), decoding=True)
    except Broken as broken:
        return broken.what
    return ""
