"""Text as a part of a sample: a caption, a label. A text file by itself is nothing that can be judged."""

from __future__ import annotations

from ..files import Stream
from ..notes import Notes
from . import Format, first_fault, is_packed
from .json import hole

PIECE = 1 << 20


def read(stream: Stream, notes: Notes) -> None:
    """Its encoding is its reader's business; zeros are nobody's text."""
    notes.facts(other="text")
    at, buffer = 0, memoryview(bytearray(PIECE))
    while got := stream.readinto(buffer):
        found = hole(bytes(buffer[:got]))
        if found is not None:
            what = f"{found.until - found.at:,} zero bytes in a text"
            notes.fault("zeros", what, at=at + found.at, until=at + found.until, lost=1)
            return
        at += got


def decoded(data: bytes | memoryview) -> str:
    if is_packed(data):
        return first_fault(read, data)
    text = bytes(data)
    if b"\0" in text:
        return f"zero bytes in a text, from its byte {text.index(0):,}"
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at its byte {error.start:,}: {error.reason}"
    return ""


TEXT = Format("text", (".txt", ".text", ".caption", ".cls"), lambda _: False, read, decoded=decoded, part=True, order=2)
