"""Digests of whole files: those of hashlib, and CRC-32, which costs a fraction of them."""

from __future__ import annotations

import hashlib
import zlib
from typing import Protocol

from ..errors import UserError

ALGORITHMS = ("crc32", "md5", "sha1", "sha256", "sha512", "blake2b")


class Hash(Protocol):
    """As hashlib has it."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def hexdigest(self) -> str: ...


class Crc32:
    """CRC-32 in the manner of hashlib."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | memoryview, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


def hasher(algorithm: str) -> Hash:
    if algorithm not in ALGORITHMS:
        raise UserError(f"there is no digest {algorithm!r}", f"known are {', '.join(ALGORITHMS)}")
    return Crc32() if algorithm == "crc32" else hashlib.new(algorithm, usedforsecurity=False)
