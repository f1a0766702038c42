"""One JSON document."""

from __future__ import annotations

import re

from ..alone import first_fault, is_packed
from ..documents.balance import Balance
from ..documents.json_text import begins, breaks_off, hole, wrong
from ..noting import Notes
from ..reading import Stream

NAME = "json"
ENDINGS = (".json",)
ORDER = 1  # JSON lines look like a document that goes on, and are asked first
START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*(?:[\"{\]]|\[\s*[\"{\[\d-]))")
LONGEST = 64 << 20
PIECE = 1 << 20


def claims(head: bytes) -> bool:
    return START.match(head) is not None and begins(head)


def read(stream: Stream, notes: Notes) -> None:
    data, buffer = [], memoryview(bytearray(PIECE))
    for _ in range(LONGEST // PIECE):
        got = stream.readinto(buffer)
        data.append(bytes(buffer[:got]))
        if got < PIECE:
            _note(b"".join(data), notes)
            return
    skim(b"".join(data), stream, notes)


def skim(start: bytes, stream: Stream, notes: Notes) -> None:
    """A document that is too long to be held, of which `start` was read."""
    balance, buffer, at = Balance(), memoryview(bytearray(PIECE)), len(start)
    balance.add(start)
    while got := stream.readinto(buffer):
        balance.add(bytes(buffer[:got]))
        at += got
    if balance.wrong():
        notes.fault("cut", f"the document of {at:,} bytes is not whole: {balance.wrong()}", at=at, lost=1)


def _note(data: bytes, notes: Notes) -> None:
    found, zeros = wrong(data), hole(data)
    if found is None:
        return
    if zeros is not None:
        what = f"{zeros.until - zeros.at:,} zero bytes stand where JSON should"
        notes.fault("zeros", what, at=zeros.at, until=zeros.until, lost=1)
    elif notes.broken:
        return
    elif breaks_off(found, data):
        notes.fault("cut", f"the document breaks off after {len(data):,} bytes: {found.what}", at=len(data), lost=1)
    else:
        notes.fault("undecodable", f"the document is no JSON at byte {found.at:,}: {found.what}", at=found.at, lost=1)


def decoded(data: bytes | memoryview) -> str:
    if not len(data):
        return "no bytes where JSON should be"
    if is_packed(data):
        return first_fault(read, data)
    found = wrong(bytes(data))
    return "" if found is None else f"no JSON at its byte {found.at:,}: {found.what}"
