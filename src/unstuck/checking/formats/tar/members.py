"""Members of a tar archive: what belongs together, what cannot be decoded, what is zeroed, what points outside."""

from __future__ import annotations

import zlib
from itertools import compress

from ....wording.printable import shortened
from ...notes import Notes
from .. import Format, of_member
from ..images import shows_zeros, zeroed
from .headers import Batch, Header
from .samples import Samples, Split
from .window import PIECE, Window

RUN = bytes(512)  # zeros: less of them may be anything
PART = bytes(256)  # of these, one half at least is in one piece
HOLE = bytes(4)  # zeros in text: UTF-16 has one at a time, UTF-32 three
TEXTS = (".txt", ".text", ".json", ".jsonl", ".caption", ".cls", ".csv", ".tsv", ".xml", ".html", ".md", ".yaml")
MOST = 256 << 20  # bytes of a member that is decoded: a larger one would need too much memory
LARGE = 1 << 18  # bytes of a member that is looked at in pieces, unless it is in the window with others
HEAD = 16  # bytes by which an image is known
STRIDE = 509  # every so many bytes are taken to tell whether two archives are the same
ANY = ("utf-8", "surrogateescape")  # names may be in any encoding


class Members:
    """One archive's, or what of it stands behind the place where readers stop."""

    def __init__(self, notes: Notes, window: Window) -> None:
        self._notes, self._window = notes, window
        self._samples = Samples(notes)
        self._decoders: dict[str, Format | None] = {}
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
        if header.padded > LARGE:
            return self._large(header, name)
        have = window.need(header.padded)
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
        self._window.ahead = self._window.size
        offset = self._window.offset - self._window.at
        self._alike = zlib.crc32(buffer[first:last:STRIDE], self._alike)
        self.total += len(batch.names)
        together = "".join(batch.names)
        if ".." in together or "/" in together or not together.isprintable():
            for name, start in zip(batch.names, batch.starts, strict=True):
                self._look_at_name(name, offset + start)
        split = [name.partition(".") for name in batch.names]
        if not self._closer and not batch.holes and not self._holes_in_texts(split, batch):
            self.now = self._samples.add_all(batch.names, split, [offset + start for start in batch.starts])
            return
        for name, start, end in zip(batch.names, batch.starts, batch.ends, strict=True):
            self.now = self._samples.add(name, offset + start)
            if self._closer:
                self._look_closer(name, self._window.view[start:end], offset + start)
            self._look_for_holes(name, start, end, offset + start)

    def _holes_in_texts(self, split: Split, batch: Batch) -> bool:
        texts = {part: f".{part}".endswith(TEXTS) for part in {part for _, _, part in split}}
        if True not in texts.values():
            return False
        chosen = [texts[part] for _, _, part in split]
        places = map(slice, compress(batch.starts, chosen), compress(batch.ends, chosen))
        return HOLE in b" ".join(map(self._window.buffer.__getitem__, places))

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
        """Piece by piece; what has to be seen as a whole is put together, or read again where zeros are in it."""
        window, wish, left = self._window, self._notes.wish, header.size
        at, crc, text, hole = window.offset, zlib.crc32(name.encode(*ANY)), name.endswith(TEXTS), -1
        window.ahead = PIECE
        image, pieces = False, bytearray() if wish.decode and header.size <= MOST else None
        while left and (have := min(window.some(), left)):
            start, end = window.at, window.at + have
            if left == header.size and shows_zeros(bytes(window.view[start : min(start + HEAD, end)])):
                image = True
                pieces = bytearray() if window.passes_once and header.size <= MOST else pieces
            self._alike = zlib.crc32(window.buffer[start:end:STRIDE], self._alike)
            crc = zlib.crc32(window.view[start:end], crc) if wish.digests else 0
            if hole < 0 and (image or text):
                found = window.buffer.find(HOLE if text else PART, start, end)
                hole = found - start + header.size - left if found >= 0 else -1
            if pieces is not None:
                pieces += window.view[start:end]
            window.skip(have)
            left -= have
        if left:
            return header.size - left
        if wish.digests:
            self._notes.member(name, self.now, at, crc)
        if image and hole >= 0:
            whole = pieces if pieces is not None else window.again(at, header.size) if header.size <= MOST else b""
            place = zeroed(memoryview(whole)) if whole else None
            hole = -1 if place is None else place
        if hole >= 0:
            self._zeros(name, hole, at)
        if wish.decode and pieces is not None:
            self._decode(name, memoryview(pieces), at)
        return header.size + window.pass_over(header.padded - header.size)

    def _zeros(self, name: str, found: int, at: int) -> None:
        what = f"{shortened(name)} has zeros from its byte {found:,} on, where such a file has none"
        self._notes.fault("zeros", what, member=name, sample=self.now, at=at + found, lost=1)

    def _decode(self, name: str, data: memoryview, at: int) -> None:
        ending = name.rpartition(".")[2].lower()
        if ending not in self._decoders:
            self._decoders[ending] = of_member(name, bytes(data[:4096]))
        decoder = self._decoders[ending]
        if decoder is None or decoder.decoded is None:
            return
        problem = decoder.decoded(data)
        self._decoded += 1
        if problem:
            kind, what = decoder.fault, f"{shortened(name)} cannot be decoded: {problem}"
            self._notes.fault(kind, what, member=name, sample=self.now, at=at, lost=1)

    def link(self, header: Header, at: int) -> None:
        """Links are no data for training; one that leads outside is meant for somebody who unpacks."""
        target, name = _text(header.link), _text(header.name)
        self._look_at_name(name, at)
        if _outside(target):
            what = f"{shortened(name)} is a link to outside its folder: {shortened(target)}"
            self._notes.fault("hostile", what, member=name, at=at)

    def _look_at_name(self, name: str, at: int) -> None:
        if name.isprintable() and name[:1] != "/" and ".." not in name:
            return
        if _outside(name):
            self._notes.fault("hostile", f"{shortened(name)} would be unpacked outside its folder", member=name, at=at)
        elif any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
            self._notes.fault("hostile", f"the name {shortened(name)} has control characters", member=name, at=at)


def _text(name: bytes) -> str:
    return name.decode(*ANY)


def _outside(path: str) -> bool:
    return path.startswith("/") or ".." in path.split("/")
