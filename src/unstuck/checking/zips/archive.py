"""A zip archive, read: its directory, and every member in the order that it has there."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import IO

from ...wording.printable import shortened
from ..broken import Broken
from ..noting import Notes
from .directory import Directory, Entry, Places, directory, entries
from .members import HEADER, closed, pieces, readable, start_of

Look = Callable[[Entry, Iterator[bytes]], None]


def read_members(raw: IO[bytes], notes: Notes, look: Look, *, open_: bool = False) -> None:
    """`look` gets each member and its data, takes all of it, and raises Broken where it is not what it should be.

    `open_`: whoever writes such archives never encrypts: what cannot be looked into is damage.
    """
    try:
        _Archive(Places(raw, notes), notes, look, open_=open_).read()
    except Broken as broken:
        notes.fault(broken.kind, broken.what, at=broken.at)


def glance_at(raw: IO[bytes], notes: Notes) -> None:
    """Its directory only."""
    places = Places(raw, notes)
    try:
        notes.facts(members=sum(1 for _ in entries(places, directory(places))))
    except Broken as broken:
        notes.fault(broken.kind, broken.what, at=broken.at)


class _Archive:
    """What was seen so far: where members begin and end, for no byte belongs to two of them."""

    def __init__(self, places: Places, notes: Notes, look: Look, *, open_: bool) -> None:
        self._places, self._notes, self._look, self._open = places, notes, look, open_
        self._starts, self._ends = array("Q"), array("Q")
        self._taken = 0

    def read(self) -> None:
        found = directory(self._places)
        for entry in entries(self._places, found):
            self._take(entry)
            self._look_at_name(entry)
            self._member(entry, found)
        self._notes.facts(members=len(self._starts))
        if not self._starts:
            raise Broken("no-rows", "it is an archive without any member")
        if _overlap(self._starts, self._ends):
            raise Broken("hostile", "members of it share bytes of the file: no writer makes such")
        if found.behind:
            at = self._places.size - found.behind
            raise Broken("damaged", f"{found.behind:,} bytes stand behind its end, at byte {at:,}", at)

    def _take(self, entry: Entry) -> None:
        self._starts.append(entry.at)
        self._ends.append(entry.at + HEADER.size + entry.packed)
        self._taken += HEADER.size + entry.packed
        if self._taken > self._places.size:
            what = f"its first {len(self._starts):,} members have {self._taken:,} bytes, more than the file itself"
            raise Broken("hostile", f"{what}: they share them, or their sizes lie", entry.at)

    def _look_at_name(self, entry: Entry) -> None:
        name = entry.name
        if name.startswith("/") or ".." in name.replace("\\", "/").split("/"):
            what = f"{shortened(name)} would be unpacked outside its folder"
        elif any(ord(one) < 32 or ord(one) == 127 for one in name):
            what = f"the name {shortened(name)} has control characters"
        else:
            return
        self._notes.fault("hostile", what, member=name, at=entry.at)

    def _member(self, entry: Entry, found: Directory) -> None:
        try:
            start = start_of(self._places, entry, found.at)
            if self._open and closed(entry):
                self._note(entry, Broken("damaged", closed(entry), start))
            elif readable(entry):
                self._look(entry, pieces(self._places, entry, start))
        except Broken as broken:
            self._note(entry, broken)

    def _note(self, entry: Entry, broken: Broken) -> None:
        what, end = f"{shortened(entry.name)}: {broken.what}", entry.at + HEADER.size + entry.packed
        self._notes.fault(broken.kind, what, member=entry.name, at=broken.at, until=end, lost=1)


def _overlap(starts: array[int], ends: array[int]) -> bool:
    import numpy as np

    order = np.argsort(starts)
    return bool((np.asarray(ends)[order][:-1] > np.asarray(starts)[order][1:]).any())
