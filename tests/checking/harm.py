"""Damage to real files, at many places, the same in every run; and what a check says of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from unstuck.checking.check import check
from unstuck.checking.notes import Wish
from unstuck.evidence.data import DataFile


def cuts(data: bytes, count: int) -> Iterator[bytes]:
    """Without its end: a few places at both ends, and any between."""
    places = {*range(1, 30), *range(len(data) - 30, len(data)), *random.Random(1).sample(range(1, len(data)), count)}
    for place in sorted(places):
        yield data[:place]


def flips(data: bytes, count: int) -> Iterator[tuple[int, bytes]]:
    """One byte altered, in one bit or in all."""
    draw = random.Random(2)
    for _ in range(count):
        at = draw.randrange(len(data))
        yield at, data[:at] + bytes([data[at] ^ draw.choice((1, 2, 4, 8, 16, 32, 64, 128, 255))]) + data[at + 1 :]


def holes(data: bytes, count: int, size: int, step: int = 1) -> Iterator[tuple[int, bytes]]:
    """Zeros in place of what was there."""
    draw = random.Random(3)
    for _ in range(count):
        at = draw.randrange(0, len(data) - size, step)
        yield at, data[:at] + bytes(size) + data[at + size :]


def garbled(data: bytes, count: int) -> Iterator[bytes]:
    """Altered, longer and shorter at many places at once."""
    draw = random.Random(4)
    for _ in range(count):
        bad = bytearray(data)
        for _ in range(draw.randrange(1, 40)):
            at = draw.randrange(8, len(bad))
            bad[at : at + draw.randrange(1, 9)] = draw.randbytes(draw.randrange(9))
        yield bytes(bad)


def seen(folder: Path, name: str, data: bytes, wish: Wish | None = None) -> DataFile:
    path = folder / name
    path.write_bytes(data)
    return check(str(path), wish or Wish()).file


def kinds(folder: Path, name: str, data: bytes, wish: Wish | None = None) -> list[str]:
    return [one.kind for one in seen(folder, name, data, wish).faults]
