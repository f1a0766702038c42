"""Samples of a tar archive as webdataset forms them: members in a row that have the same name up to its first dot."""

from __future__ import annotations

from ...model.checked import Group
from ..noting import MOST as KEPT
from ..noting import Notes, clean

MOST = 1_000_000  # samples of one archive whose keys are compared: beyond, memory would not stay bounded
KINDS = 10_000  # ways to be put together that are told apart, for the same reason
PARTS = 1_000  # of one sample
GROUPS = 8  # ways to be put together that are kept
SHARE = 0.1  # of the samples that come back: in an archive of anything, some files are called alike by chance


class _Kind:
    """Samples that have the same parts."""

    __slots__ = ("at", "count", "first", "parts")

    def __init__(self, parts: tuple[str, ...], first: str, at: int) -> None:
        self.parts, self.first, self.at, self.count = parts, first, at, 0


class Samples:
    """`add` every regular member in its order, then `end`."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._key = ""
        self._parts: list[str] = []
        self._at = 0
        self._seen: dict[int, _Kind] = {}  # by the hash of its key, what a sample was put together of
        self._kinds: dict[tuple[str, ...], _Kind] = {}
        self._orders: dict[tuple[str, ...], _Kind] = {}  # the same, by the order in which the parts came
        self._apart: list[tuple[str, str, int]] = []  # what comes back with other parts: words, key and place
        self._returned = 0
        self.count = 0
        self.unnamed = 0  # members without an ending: no sample for webdataset

    def add(self, name: str, at: int) -> str:
        """The key of the sample it belongs to."""
        start = name.rfind("/") + 1
        dot = name.find(".", start)
        if dot <= start:
            self.unnamed += 1
            return ""
        key, part = name[:dot], name[dot + 1 :].lower()
        if key != self._key:
            self.close()
            self._key, self._at = key, at
        elif part in self._parts:
            what = f"{clean(key)} has .{clean(part)} twice, one behind the other"
            self._notes.fault("tar-duplicate", what, member=name, sample=key, at=at, lost=1)
        if len(self._parts) < PARTS:
            self._parts.append(part)
        return key

    def close(self) -> None:
        """The sample is over: compare it with those before."""
        if self._parts:
            self.count += 1
            order, mark = tuple(self._parts), hash(self._key)
            kind = self._orders.get(order) or self._kind(order)
            kind.count += 1
            before = self._seen.get(mark)
            if before is not None:
                self._again(before, kind)
            elif len(self._seen) < MOST:
                self._seen[mark] = kind
            self._parts = []
        self._key = ""

    def end(self) -> None:
        """Nothing more comes. Parts stand apart where there are samples of several parts, or many that come back."""
        self.close()
        several = sum(kind.count for kind in self._kinds.values() if len(kind.parts) > 1)
        if 2 * several > self.count or self._returned > SHARE * self.count:
            for what, key, at in self._apart:
                self._notes.fault("tar-apart", what, sample=key, at=at, lost=1)
            self._notes.more("tar-apart", self._returned - len(self._apart))

    def groups(self) -> list[Group]:
        """The most frequent first."""
        found = sorted(self._kinds.values(), key=lambda one: -one.count)
        return [Group([clean(part) for part in one.parts], one.count, one.first, one.at) for one in found[:GROUPS]]

    def _kind(self, order: tuple[str, ...]) -> _Kind:
        parts = tuple(sorted(set(order)))
        kind = self._kinds.get(parts) or _Kind(parts, clean(self._key), self._at)
        if len(self._orders) < KINDS:
            self._kinds[parts] = self._orders[order] = kind
        return kind

    def _again(self, before: _Kind, kind: _Kind) -> None:
        key, here, there = clean(self._key), clean(", .".join(kind.parts)), clean(", .".join(before.parts))
        if set(before.parts) & set(kind.parts):
            what = f"the key {key} stands here a second time, with .{here}"
            self._notes.fault("tar-duplicate", what, sample=self._key, at=self._at, lost=1)
        else:
            self._returned += 1
            if len(self._apart) < KEPT:
                what = f"{key} stands here with .{here}, and further up with .{there}: readers make two samples of it"
                self._apart.append((what, self._key, self._at))
