"""Tensors as safetensors saves them."""

from __future__ import annotations

from typing import IO

from ...wording.printable import shortened
from ..alone import first_fault
from ..arrays.passing import pass_over, take
from ..arrays.tensors import LONGEST, Tensors
from ..broken import Broken
from ..noting import Notes
from ..reading import Stream

NAME = "safetensors"
ENDINGS = (".safetensors",)
LENGTH = 8


def claims(head: bytes) -> bool:
    """The length of a header, which is none of several GiB, and its first bracket."""
    return len(head) > LENGTH and head[4:9] == b"\0\0\0\0{" and head[9:].lstrip()[:1] in (b'"', b"}", b"")


def read(stream: Stream, notes: Notes) -> None:
    try:
        length = _length(take(stream, LENGTH))
        tensors = _tensors(take(stream, length), length)
        notes.facts(members=tensors.count)
        _compare(tensors, LENGTH + length, pass_over(stream))
    except Broken as broken:
        _note(broken, notes)


def glance(raw: IO[bytes], notes: Notes) -> None:
    """Its header, and whether as many bytes follow."""
    raw.seek(0)
    try:
        length = _length(raw.read(LENGTH))
        header = raw.read(length)
        notes.moved(LENGTH + len(header))
        _compare(_tensors(header, length), LENGTH + length, notes.size - LENGTH - length)
    except Broken as broken:
        _note(broken, notes)


def _length(start: bytes) -> int:
    """Of the header."""
    length = int.from_bytes(start, "little")
    if len(start) < LENGTH:
        raise Broken("cut", f"it breaks off in the length of its header, after {len(start)} bytes", len(start))
    if not length:
        raise Broken("zeros" if not start.strip(b"\0") else "damaged", "the length of its header is 0", 0)
    if length > LONGEST:
        raise Broken("hostile", f"it announces a header of {length:,} bytes; no more than {LONGEST:,} are read", 0)
    return length


def _tensors(header: bytes, length: int) -> Tensors:
    if len(header) < length:
        what = f"it breaks off in its header: {len(header):,} of {length:,} bytes are there"
        raise Broken("cut", what, LENGTH + len(header))
    return Tensors(header)


def _compare(tensors: Tensors, start: int, have: int) -> None:
    if have < tensors.size:
        what = f"its {tensors.count:,} tensors have {tensors.size:,} bytes; {have:,} of them are there"
        raise Broken("cut", what, start + have)
    if have > tensors.size:
        what = f"{have - tensors.size:,} bytes stand behind its tensors, which its readers refuse"
        raise Broken("damaged", what, start + tensors.size)


def _note(broken: Broken, notes: Notes) -> None:
    if broken.kind != "cut" or not notes.broken:
        notes.fault(broken.kind, shortened(broken.what), at=broken.at)


def decoded(data: bytes | memoryview) -> str:
    return first_fault(read, data)
