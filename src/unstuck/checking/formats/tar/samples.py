"""Samples of a tar archive as webdataset forms them: members in a row that have the same name up to its first dot."""

from __future__ import annotations

from ....evidence.data import Group
from ....wording.printable import shortened
from ...notes import MOST as KEPT
from ...notes import Notes

MOST = 1_000_000  # samples of one archive whose keys are compared: beyond, memory would not stay bounded
KINDS = 2_000  # ways to be put together that are told apart, for the same reason
PARTS = 1_000  # of one sample
NAMED = 500  # samples of a kind whose keys are kept
GROUPS = 8  # ways to be put together that are kept
SHARE = 0.1  # of the samples that come back: in an archive of anything, some files are called alike by chance
Split = list[tuple[str, str, str]]


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
            what = f"{shortened(key)} has .{shortened(part)} twice in a row"
            self._notes.fault("tar-duplicate", what, member=name, sample=key, at=at, lost=1)
        if len(self._parts) < PARTS:
            self._parts.append(part)
        return key

    def add_all(self, names: list[str], split: Split, places: list[int]) -> str:
        """The same of many, one behind the other; those that are put together alike are counted at once.

        `split`: names at their first dot, which may be the dot of a folder.
        """
        keys = [key for key, _, _ in split]
        first = next((at for at, key in enumerate(keys) if key != self._key), len(keys))
        alike = next((at for at in range(first, len(keys)) if keys[at] != keys[first]), len(keys)) - first
        last = first + (len(keys) - first - 1) // alike * alike if alike else first  # the newest may go on
        key = ""
        for at in range(first):
            key = self.add(names[at], places[at])
        if last > first and not self._alike(keys[first : last + 1], [part for _, _, part in split[first:last]], alike):
            last = first
        elif last > first:
            self.close()
            self._key, self._at = keys[first], places[first]
            self._count([part.lower() for _, _, part in split[first : first + alike]], keys[first:last:alike])
            self._key = ""
        for at in range(last, len(names)):
            key = self.add(names[at], places[at])
        return key

    def _alike(self, keys: list[str], parts: list[str], each: int) -> bool:
        """All are of so many members with the same endings, and none was there before. One key more than parts."""
        kinds = [set(parts[at::each]) for at in range(each)]
        endings = {part.lower() for kind in kinds for part in kind}
        marks, firsts = {hash(key) for key in keys[:-1:each]}, keys[:-1:each]
        return (
            all(keys[at:-1:each] == firsts for at in range(1, each))
            and keys[-1] != keys[-2]
            and each <= PARTS
            and len(endings) == each == sum(map(len, kinds))
            and "" not in endings
            and not any("/" in part for part in endings)
            and all(key and key[-1] != "/" for key in firsts)
            and len(marks) == len(firsts)
            and len(self._seen) + len(marks) <= MOST
            and self._seen.keys().isdisjoint(marks)
            and hash(self._key) not in marks
        )

    def _count(self, parts: list[str], keys: list[str]) -> None:
        order = tuple(parts)
        kind = self._orders.get(order) or self._kind(order)
        kind.add(keys)
        self.count += len(keys)
        self._seen.update(dict.fromkeys(map(hash, keys), kind))

    def close(self) -> None:
        """The sample is over: compare it with those before."""
        if self._parts:
            self.count += 1
            order, mark = tuple(self._parts), hash(self._key)
            kind = self._orders.get(order) or self._kind(order)
            kind.add([self._key])
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
        found = sorted(self._kinds.values(), key=lambda kind: -kind.count)
        return [kind.group(self.count) for kind in found[:GROUPS]]

    def _kind(self, order: tuple[str, ...]) -> _Kind:
        parts = tuple(sorted(set(order)))
        kind = self._kinds.get(parts) or _Kind(parts, shortened(self._key), self._at)
        if len(self._orders) < KINDS:
            self._kinds[parts] = self._orders[order] = kind
        return kind

    def _again(self, before: _Kind, kind: _Kind) -> None:
        key, here, there = shortened(self._key), shortened(", .".join(kind.parts)), shortened(", .".join(before.parts))
        if set(before.parts) & set(kind.parts):
            what = f"the key {key} again, with .{here}"
            self._notes.fault("tar-duplicate", what, sample=self._key, at=self._at, lost=1)
        else:
            self._returned += 1
            if len(self._apart) < KEPT:
                what = f"{key} has .{here} here and .{there} further up: read as two samples"
                self._apart.append((what, self._key, self._at))


class _Kind:
    """Samples that have the same parts."""

    __slots__ = ("at", "count", "first", "keys", "parts")

    def __init__(self, parts: tuple[str, ...], first: str, at: int) -> None:
        self.parts, self.first, self.at, self.count = parts, first, at, 0
        self.keys: list[str] = []  # of the first of them

    def add(self, keys: list[str]) -> None:
        self.count += len(keys)
        if len(self.keys) < NAMED:
            self.keys += keys[: NAMED - len(self.keys)]

    def group(self, of: int) -> Group:
        """`of`: samples of the archive."""
        few = self.count <= len(self.keys) and 2 * self.count < of
        parts, keys = ([shortened(kind) for kind in some] for some in (self.parts, self.keys if few else ()))
        return Group(parts, self.count, self.first, self.at, keys)
