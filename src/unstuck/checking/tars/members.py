"""Members of a tar archive: what belongs together, what cannot be decoded, what is zeroed, what points outside."""

from __future__ import annotations

import zlib
from types import ModuleType

from ..formats import of_member
from ..images.zeroed import zeroed
from ..noting import Notes, clean
from .batches import Batch
from .headers import Header
from .samples import Samples
from .window import Window

RUN = bytes(512)  # zeros: less of them may be anything
HOLE = bytes(4)  # zeros in text: UTF-16 has one at a time, UTF-32 three
TEXTS = (".txt", ".text", ".json", ".jsonl", ".caption", ".cls", ".csv", ".tsv", ".xml", ".html", ".md", ".yaml")
MOST = 256 << 20  # bytes of a member that is decoded: a larger one would need too much memory
STRIDE = 509  # every so many bytes are taken to tell whether two archives are the same


class Members:
    """One archive's, or what of it stands behind the place where readers stop."""

    def __init__(self, notes: Notes, window: Window) -> None:
        self._notes, self._window = notes, window
        self._samples = Samples(notes)
        self._decoders: dict[str, ModuleType | None] = {}
        self._decoded = 0
        self._alike = 0
        self._closer = notes.wish.digests or notes.wish.decode
        self.total = 0
        self.now = self.first = ""  # the sample of the newest member, and of the first

    @property
    def samples(self) -> int:
        """Where nothing has an ending, nothing belongs together either."""
        return self._samples.count or self.total

    def count(self, header: Header) -> int:
        """Passes over the data of a member, and gives how much of it is there."""
        self.total += 1
        self.now = self._samples.add(_text(header.name), 0)
        self.first = self.first or self.now
        return self._window.pass_over(header.padded)

    def end(self) -> None:
        self._samples.end()

    def close(self) -> None:
        self.end()
        alike = f"{self._alike:08x}-{self.total}" if self.total else ""
        self._notes.facts(
            samples=self.samples, members=self.total, groups=self._samples.groups(), decoded=self._decoded, alike=alike
        )

    def data(self, header: Header) -> int:
        """Looks at a regular member, and gives how much of its data is there."""
        window, name, at = self._window, _text(header.name), self._window.offset
        self._look_at_name(name, at)
        self.now = self._samples.add(name, at)
        self.total += 1
        have = window.need(min(header.padded, window.size))
        if header.padded > window.size:
            return self._large(header, name)
        if have < header.padded:
            return have
        self._look_at(name, window.at, window.at + header.size, at)
        window.skip(header.padded)
        return header.padded

    def batch(self, batch: Batch) -> None:
        """The same of many, whose data is in the window."""
        if not batch.names:
            return
        buffer, first, last = self._window.buffer, batch.starts[0], batch.next
        offset, holes = self._window.offset - self._window.at, buffer.find(RUN, first, last) >= 0
        self._alike = zlib.crc32(buffer[first:last:STRIDE], self._alike)
        self.total += len(batch.names)
        for name, start, end in zip(batch.names, batch.starts, batch.ends, strict=True):
            if name[0] == "/" or ".." in name or not name.isprintable():
                self._look_at_name(name, offset + start)
            self.now = self._samples.add(name, offset + start)
            if self._closer:
                self._look_closer(name, self._window.view[start:end], offset + start)
            if holes or start == end or (name.endswith(TEXTS) and buffer.find(HOLE, start, end) >= 0):
                self._look_for_holes(name, start, end, offset + start)

    def _look_at(self, name: str, start: int, end: int, at: int) -> None:
        window = self._window
        self._alike = zlib.crc32(window.buffer[start:end:STRIDE], self._alike)
        if self._closer:
            self._look_closer(name, window.view[start:end], at)
        self._look_for_holes(name, start, end, at)

    def _look_for_holes(self, name: str, start: int, end: int, at: int) -> None:
        window = self._window
        if name.endswith(TEXTS):
            found = window.buffer.find(HOLE, start, end)
            if found >= 0:
                self._zeros(name, found - start, at)
        elif window.buffer.find(RUN, start, end) >= 0:
            place = zeroed(window.view[start:end])
            if place is not None:
                self._zeros(name, place, at)
        elif start == end:
            self._decode(name, memoryview(b""), at)

    def _look_closer(self, name: str, data: memoryview, at: int) -> None:
        if self._notes.wish.digests:
            self._notes.member(name, self.now, at, zlib.crc32(data, zlib.crc32(name.encode(*ANY))))
        if self._notes.wish.decode and data:
            self._decode(name, data, at)

    def _large(self, header: Header, name: str) -> int:
        """More than the window holds: piece by piece, or, where it is to be decoded, as a whole after all."""
        window, wish, left = self._window, self._notes.wish, header.size
        whole = bytearray() if wish.decode and header.size <= MOST else None
        at, crc = window.offset, zlib.crc32(name.encode(*ANY))
        while left and (have := min(window.need(1), left)):
            piece = window.view[window.at : window.at + have]
            crc = zlib.crc32(piece, crc) if wish.digests else 0
            if whole is not None:
                whole += piece
            window.skip(have)
            left -= have
        if left:
            return header.size - left
        if wish.digests:
            self._notes.member(name, self.now, at, crc)
        if whole is not None:
            self._decode(name, memoryview(whole), at)
        return header.size + window.pass_over(header.padded - header.size)

    def _zeros(self, name: str, found: int, at: int) -> None:
        what = f"{clean(name)} has zeros from its byte {found:,} on, where such a file has none"
        self._notes.fault("zeros", what, member=name, sample=self.now, at=at + found, lost=1)

    def _decode(self, name: str, data: memoryview, at: int) -> None:
        ending = name.rpartition(".")[2].lower()
        if ending not in self._decoders:
            self._decoders[ending] = of_member(name, bytes(data[:4096]))
        decoder = self._decoders[ending]
        if decoder is None:
            return
        problem = decoder.decoded(data)
        self._decoded += 1
        if problem:
            kind, what = getattr(decoder, "FAULT", "undecodable"), f"{clean(name)} cannot be decoded: {problem}"
            self._notes.fault(kind, what, member=name, sample=self.now, at=at, lost=1)

    def link(self, header: Header, at: int) -> None:
        """Links are no data for training; one that leads outside is meant for somebody who unpacks."""
        target, name = _text(header.link), _text(header.name)
        self._look_at_name(name, at)
        if _outside(target):
            what = f"{clean(name)} is a link that leads outside, to {clean(target)}"
            self._notes.fault("hostile", what, member=name, at=at)

    def _look_at_name(self, name: str, at: int) -> None:
        if name.isprintable() and name[:1] != "/" and ".." not in name:
            return
        if _outside(name):
            self._notes.fault("hostile", f"{clean(name)} would be unpacked outside its folder", member=name, at=at)
        elif any(ord(one) < 32 or ord(one) == 127 for one in name):
            self._notes.fault("hostile", f"the name {clean(name)} has control characters", member=name, at=at)


ANY = ("utf-8", "surrogateescape")  # names may be in any encoding


def _text(name: bytes) -> str:
    return name.decode(*ANY)


def _outside(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")
