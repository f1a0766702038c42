"""Tar archives and WebDataset shards: every header, every byte of data, and the end.

A reader such as Python's tarfile takes anything that is no good header for the end of the archive, without a word: so
what stands behind such a place is looked for, and counted as lost. What is cut within data, readers raise about.
"""

from __future__ import annotations

import os
from typing import IO

from ....wording.printable import shortened
from ...files import Stream
from ...notes import Notes
from .. import Format
from .headers import (
    BLOCK,
    EXTENSIONS,
    LINKS,
    LONG_LINK,
    LONG_NAME,
    PAX,
    REGULAR,
    ZEROS,
    Header,
    batch,
    look_for,
    parse,
    pax,
)
from .members import Members
from .window import Window

LONGEST = 1 << 20  # bytes of a name or of a pax header: a larger one lies
FEW = 16  # members that are read one by one where there were none to read together: looking for them takes time
TAIL = 2 * BLOCK
PADDING = (1 << 20) + TAIL  # bytes of zeros at the end: what `tar -b 2048` writes; others write 10 KiB


def claims(head: bytes) -> bool:
    return len(head) >= BLOCK and head[:BLOCK] != ZEROS and parse(head[:BLOCK]) is not None


def glance(raw: IO[bytes], notes: Notes) -> None:
    """Its last blocks: without zeros there, it was cut."""
    raw.seek(max(notes.size - TAIL, 0), os.SEEK_SET)
    tail = raw.read(TAIL)
    notes.moved(len(tail))
    if tail[-BLOCK:].strip(b"\0"):
        _no_end(notes, notes.size)


def read(stream: Stream, notes: Notes) -> None:
    window = Window(stream)
    archive = _Archive(window, notes)
    try:
        while archive.plain_members() and archive.member():
            pass
        archive.close()
    finally:
        window.close()


TAR = Format("tar", (".tar", ".tgz", ".tbz2", ".txz"), claims, read, glance)


class _Archive:
    """Goes from header to header. `stopped` is where readers take it to be over."""

    def __init__(self, window: Window, notes: Notes) -> None:
        self._window, self._notes = window, notes
        self._members = Members(notes, window)
        self._long: dict[bytes, bytes] = {}  # what extension headers say of the member that follows
        self._behind: Members | None = None  # what stands behind the place where readers stop
        self._stopped = ("", "", 0)
        self._patience = 0  # members that are read one by one before it is tried again to read many at once
        self._until: int | None = None  # where a header stands again

    def plain_members(self) -> bool:
        """As many as the window holds of the kind that nearly all are, in a quarter of the time that `member` takes."""
        self._patience -= 1
        if not self._long and self._behind is None and self._patience < 0:
            window = self._window
            found = batch(window.buffer, window.at, window.end)
            self._members.batch(found)
            window.skip(found.next - window.at)
            self._patience = 0 if found.names else max(found.looked_at, FEW)
        return True

    def member(self) -> bool:
        """One further header with what belongs to it. False: it is over."""
        window = self._window
        have = window.need(BLOCK)
        if have < BLOCK:
            self._over(have)
            return False
        at = window.at
        raw = bytes(window.view[at : at + BLOCK])
        header = parse(raw)
        if header is None or raw == ZEROS:
            return self._lost(zero=raw == ZEROS)
        window.skip(BLOCK)
        if header.kind in EXTENSIONS:
            return self._extend(header)
        while header.extended:  # more of the map of a sparse file
            if window.need(BLOCK) < BLOCK:
                return self._cut(header, 0)
            header = header._replace(extended=window.buffer[window.at + 504] == 1)
            window.skip(BLOCK)
        return self._data(self._named(header))

    def _named(self, header: Header) -> Header:
        if not self._long:
            return header
        long, self._long = self._long, {}
        size = long.get(b"size", b"")
        return header._replace(
            name=long.get(b"path", header.name),
            link=long.get(b"linkpath", header.link),
            size=int(size) if size.isdigit() and len(size) < 19 else header.size,
        )

    def _extend(self, header: Header) -> bool:
        """A long name, or a pax header: about the member that follows."""
        window = self._window
        if header.padded > min(LONGEST, window.size):
            self._notes.fault(
                "hostile", f"a name of {header.size:,} bytes is declared at byte {window.offset:,}", at=window.offset
            )
            return self._data(header._replace(kind=b"0"))
        if window.need(header.padded) < header.padded:
            return self._cut(header, window.end - window.at)
        data = bytes(window.buffer[window.at : window.at + header.size])
        if header.kind in (LONG_NAME, LONG_LINK):
            self._long[b"path" if header.kind == LONG_NAME else b"linkpath"] = data.partition(b"\0")[0]
        elif header.kind in (PAX, b"X"):
            found = pax(data)
            self._long[b""] = b""  # there is one, whatever it says
            if not found:
                what = (
                    f"the extended header at byte {window.offset:,} is corrupt: readers raise an error or lose the name"
                )
                self._notes.fault("damaged", what, at=window.offset)
            self._long.update(found or {})
        window.skip(header.padded)
        return True

    def _data(self, header: Header) -> bool:
        members = self._behind or self._members
        if header.kind in LINKS and self._behind is None:
            members.link(header, self._window.offset)
        if header.kind not in REGULAR:
            return self._window.pass_over(header.padded) == header.padded or self._cut(header, 0)
        have = members.data(header) if self._behind is None else members.count(header)
        return have == header.padded or self._cut(header, have)

    def _cut(self, header: Header, have: int) -> bool:
        """The file ends in the data of a member."""
        if self._behind is None and not self._notes.broken:
            name = shortened(header.name.decode("utf-8", "replace"))
            what = f"the file ends inside {name}: {min(have, header.size):,} of {header.size:,} bytes are there"
            if have >= header.size:
                what = f"the file ends right after the data of {name}"
            self._notes.fault("tar-cut-data", what, member=name, sample=self._members.now, at=self._notes.size or None)
        return False

    def _over(self, have: int) -> None:
        """The file ends where a header should stand."""
        if self._behind is not None or self._notes.broken:
            return
        window = self._window
        rest = window.buffer[window.at : window.at + have]
        if have and not rest.strip(b"\0"):
            return  # the end mark begins: nothing is missing
        at = window.offset
        if self._long:
            what = f"the file ends after an extended header at byte {at:,}: the member it describes is missing"
            self._notes.fault("tar-cut-data", what, at=at)
        elif have:
            what = f"the file ends inside a header ({have} of {BLOCK} bytes): readers take that for the end"
            self._notes.fault("tar-cut-header", what, at=at)
        elif at:
            _no_end(self._notes, at)

    def _lost(self, *, zero: bool) -> bool:
        """No header where one should stand: the end, or readers take it for the end. Goes on where one stands again."""
        window, start = self._window, self._window.offset
        if self._long and self._behind is None:
            what = f"the header after an extended one, at byte {start:,}, is corrupt: readers raise an error there"
            self._notes.fault("damaged", what, at=start)
            self._long = {}
        filled = not zero
        while (have := window.need(window.size)) >= BLOCK:
            end = window.at + have
            place = look_for(window.buffer, window.at, end, window.at % BLOCK)
            filled = filled or bool(window.view[window.at : end if place is None else place].tobytes().strip(b"\0"))
            if place is not None:
                window.skip(place - window.at)
                self._stop(start, zero=zero, filled=filled, until=window.offset)
                return True
            window.skip(have - have % BLOCK if have == window.size else have)
        if filled:
            self._stop(start, zero=zero, filled=filled, until=None)
        elif self._behind is None:
            self._ends(start, window.offset)
        return False

    def _stop(self, start: int, *, zero: bool, filled: bool, until: int | None) -> None:
        if self._behind is not None:
            return
        self._behind = Members(self._notes, self._window)
        if zero:
            size = f"{until - start:,} bytes of " if until is not None and not filled else ""
            what = f"{size}zeros at byte {start:,}: readers take them for the end"
            self._stopped = ("tar-early-end", what, start)
        elif start == 0:
            self._stopped = ("damaged", "its first header is corrupt: readers cannot open it", start)
        else:
            what = f"the header at byte {start:,} is corrupt: readers take it for the end"
            self._stopped = ("tar-bad-header", what, start)
        self._until = until

    def _ends(self, start: int, end: int) -> None:
        """With zeros, as it should; but not with any number of them."""
        self._notes.facts(tail=end - start)
        if end - start > PADDING:
            what = (
                f"its last {end - start:,} bytes are zeros, more than any writer pads with: that part was never written"
            )
            self._notes.fault("zeros", what, at=start, until=end)
        elif not self._members.total:
            self._notes.fault("no-rows", "the archive has no members")

    def close(self) -> None:
        self._members.close()
        if self._behind is None:
            return
        kind, what, at = self._stopped
        self._behind.end()
        again = self._behind.first != "" and self._behind.first == self._members.now  # the rest of a sample
        lost = self._behind.samples - again
        behind = f"; {lost:,} samples follow" if lost else "; no whole sample follows"
        self._notes.fault(kind, f"{what}{behind}", at=at, until=self._until, lost=lost or None)


def _no_end(notes: Notes, at: int) -> None:
    what = "no end mark: it was truncated between two members, or its writer was never closed"
    notes.fault("tar-no-end", what, at=at)
