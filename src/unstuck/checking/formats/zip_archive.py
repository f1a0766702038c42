"""Zip archives of any kind, also those that torch.save writes: every member against its checksum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from ..broken import Broken
from ..noting import Notes
from ..reading import Stream
from ..zips.archive import glance_at, read_members
from ..zips.directory import Entry
from . import of_member, text

NAME = "zip"
ENDINGS = (".zip",)
SEEKS = True
ORDER = 1  # npz is asked before
MOST = 256 << 20  # bytes of a member that is decoded


def claims(head: bytes) -> bool:
    return head.startswith((b"PK\3\4", b"PK\5\6"))


def read(stream: Stream, notes: Notes) -> None:
    looked = _Looked(decode=notes.wish.decode)
    read_members(stream.raw, notes, looked.look)
    notes.facts(decoded=looked.decoded)


def glance(raw: IO[bytes], notes: Notes) -> None:
    glance_at(raw, notes)


class _Looked:
    def __init__(self, *, decode: bool) -> None:
        self._decode = decode
        self.decoded = 0

    def look(self, entry: Entry, data: Iterator[bytes]) -> None:
        if not self._decode or entry.size > MOST:
            for _ in data:
                pass
            return
        whole = b"".join(data)
        decoder = of_member(entry.name, whole[:4096])
        if decoder is None or decoder is text or entry.name.endswith("/"):  # a licence may be in any encoding
            return
        problem = decoder.decoded(whole)
        self.decoded += 1
        if problem:
            raise Broken(getattr(decoder, "FAULT", "undecodable"), f"cannot be decoded: {problem}", entry.at)
