"""What is noted while one file is read: faults, counts and digests, bounded however much is wrong."""

from __future__ import annotations

import hashlib
import zlib
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ..errors import UserError
from ..evidence.data import DataFile, Fault, Texts
from ..wording.printable import shortened

MOST = 50  # faults of one kind that are kept with all they say; the rest is counted
ALGORITHMS = ("crc32", "md5", "sha1", "sha256", "sha512", "blake2b")


class Wish(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a file is to be read."""

    decode: bool = False  # really decode images, JSON, arrays
    digests: bool = False  # CRC-32 of each member
    algorithm: str = ""  # a digest of the whole file: crc32, md5, sha1, sha256
    whole: bool = True  # False: its ends only


class Notes:
    """The file that is being read."""

    def __init__(
        self,
        path: str,
        size: int,
        wish: Wish,
        progress: Callable[[int], None] = lambda _: None,
        expected: bytes = b"",
    ) -> None:
        self.path, self.size, self.wish = path, size, wish
        self.read = 0
        self.broken = False  # its compression ends before its time: what a format misses behind that is no news
        self.reading = 0.0  # seconds that the system took to give us its bytes
        self._hash = _hasher(wish.algorithm) if wish.algorithm and wish.whole else None
        self.digests = array("I")
        self._expected = Counter(array("I", expected)) if expected else None
        self._progress = progress
        self._faults: list[Fault] = []
        self._counts: dict[str, int] = {}
        self._facts: dict[str, Any] = {}
        self._texts: list[Texts] = []

    def fault(self, kind: str, what: str, *, member: str = "", sample: str = "", **rest: int | None) -> None:
        """Something is wrong; see `Fault`."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= MOST:
            self._faults.append(Fault(kind, what, member=shortened(member), sample=shortened(sample), **rest))

    def more(self, kind: str, count: int) -> None:
        """Further ones of a kind, of which no more is said."""
        if count > 0:
            self._counts[kind] = self._counts.get(kind, 0) + count

    def facts(self, **facts: Any) -> None:
        """Fields of `DataFile`."""
        self._facts.update(facts)

    def text(self, column: Texts) -> None:
        self._texts.append(column)

    def moved(self, count: int) -> None:
        """So many bytes of the file itself were read."""
        self.read += count
        self._progress(count)

    def hash(self, data: bytes | memoryview) -> None:
        if self._hash is not None:
            self._hash.update(data)

    @property
    def digest(self) -> str:
        return f"{self.wish.algorithm}:{self._hash.hexdigest()}" if self._hash is not None else ""

    def member(self, name: str, sample: str, at: int, crc: int) -> None:
        """The digest of a member of an archive, of its name and data, for the manifest or against it."""
        self.digests.append(crc)
        if self._expected is None:
            return
        if self._expected[crc]:
            self._expected[crc] -= 1
        else:
            what = f"{shortened(name)} differs from the manifest: it was altered or added since"
            self.fault("manifest", what, member=name, sample=sample, at=at, lost=1)

    def gone(self) -> int:
        """Members that the manifest has and the file has not, beyond those that were altered."""
        left = sum(self._expected.values()) if self._expected is not None else 0
        return max(left - self._counts.get("manifest", 0), 0)

    @property
    def faulty(self) -> bool:
        return bool(self._counts)

    def file(self, **facts: Any) -> DataFile:
        return DataFile(
            self.path,
            size=self.size,
            read=self.read,
            reading=self.reading,
            whole=self.wish.whole,
            faults=self._faults,
            counts=self._counts,
            texts=self._texts,
            **{**self._facts, **facts},
        )


class Broken(Exception):  # noqa: N818 - what it means is not decided where it is raised
    """There is no more to be had. Kind, words and offset as in `Fault`."""

    def __init__(self, kind: str, what: str, at: int | None = None) -> None:
        super().__init__(what)
        self.kind, self.what, self.at = kind, what, at


class _Hash(Protocol):
    """As hashlib has it."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


class _Crc32:
    """CRC-32 in the manner of hashlib."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | memoryview, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


def _hasher(algorithm: str) -> _Hash:
    if algorithm not in ALGORITHMS:
        raise UserError(f"there is no digest {algorithm!r}", f"known are {', '.join(ALGORITHMS)}")
    return _Crc32() if algorithm == "crc32" else hashlib.new(algorithm, usedforsecurity=False)
