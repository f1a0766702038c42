"""Plain members of an archive, all that a window holds at once: numpy looks at their headers together.

Nearly all members are of one kind: a regular file with a short name, perhaps with an extended header in front that
tells a time. One by one, a header costs 4 µs; so, a tenth of that. Whatever is not plain ends a batch, and is left to
who reads one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .headers import BLOCK, PAX, REGULAR

FILE, EXTENDED = REGULAR[0][0], PAX[0]
NEAR = 8192  # blocks: what is computed of more headers than these have would not stay in a processor's cache
MANY = 64  # headers: with fewer, it pays to have more of them together
FEW = 8  # headers: reading them one by one is as fast then
STEP = 256  # zeros that fill a block have eight of them at such a place
WORD, WIDE = np.dtype("<u4"), np.dtype("<u8")
WORDS = BLOCK // WORD.itemsize
SIZE, CHECKSUM, MAGIC = (31, 32, 33), (37, 38), 64  # words of a header
USTAR = int.from_bytes(b"\0ust", "little")  # the end of a link's name, and "ustar"
SPACES = int.from_bytes(b"    ", "little")
TIME = [int.from_bytes(word, "little") for word in (b" m", b"time", b"=")]
NOT_A_DIGIT, DIGITS = np.uint32(0xF8F8F8F8), np.uint32(0x30303030)  # octal ones differ in three bits
BYTES, PAIRS, HALF = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)
Numbers = NDArray[np.int64]
Words = NDArray[np.uint32]
Wide = NDArray[np.uint64]
Flags = NDArray[np.bool_]


class Batch(NamedTuple):
    """Names, where their data begins and ends, and where the next header stands, in the window."""

    names: list[str]
    starts: list[int]
    ends: list[int]
    next: int
    looked_at: int  # headers: those that are not plain were looked at in vain
    holes: bool = False  # one of them may have a block of zeros, or is empty


def batch(buffer: bytearray, at: int, end: int) -> Batch:
    """Empty where the first of them is not plain or not whole, or where there are so few that it is not worth it."""
    blocks = np.frombuffer(buffer, WORD, (end - at) // BLOCK * WORDS, at).reshape(-1, WORDS)
    places = np.flatnonzero(blocks[:NEAR, MAGIC] == USTAR)
    if len(places) < MANY and len(blocks) > NEAR:
        places = np.flatnonzero(blocks[:, MAGIC] == USTAR)
    nothing = Batch([], [], [], at, len(places))
    if len(places) < FEW or places[0] != 0:
        return nothing
    headers = blocks[places]
    kinds = headers.view(np.uint8)[:, 156]
    good, sizes = _numbers(headers)
    after = places + 1 + (sizes + BLOCK - 1) // BLOCK
    good &= after <= len(blocks)
    good[1:] &= after[:-1] == places[1:]  # or something in the data of a member looks like a header
    good &= _plain(headers, kinds, blocks, places, sizes)
    whole = len(places) if good.all() else int(np.argmin(good))
    while whole and kinds[whole - 1] == EXTENDED:  # what it speaks of is not in the window
        whole -= 1
    if not whole:
        return nothing
    files = np.flatnonzero(kinds[:whole] == FILE)
    names = _names(headers[files, :25])
    if not names:
        return nothing
    starts = (places[files] + 1) * BLOCK
    ends = starts + sizes[files]
    following = int(after[whole - 1])
    holes = _may_have_holes(blocks[:following], starts, ends)
    return Batch(names, (starts + at).tolist(), (ends + at).tolist(), at + following * BLOCK, len(places), holes)


def _may_have_holes(blocks: Words, starts: Numbers, ends: Numbers) -> bool:
    """Eight bytes every 256 are looked at: where these are zeros, somebody has to look closer."""
    wide = blocks.view(WIDE).reshape(-1, STEP // WIDE.itemsize)
    zero = np.flatnonzero(wide[:, 0] == 0)
    first, behind = np.searchsorted(zero, (-(-starts // STEP), np.maximum(ends - 8, starts) // STEP + 1))
    return bool(np.any(behind > first) or np.any(starts == ends))


def _names(fields: Words) -> list[str]:
    """None at all where one is empty, has an end of line in it, or something behind its end."""
    names = fields.view("S100").ravel().tolist()
    together = b"\n".join(names)
    if b"\0" in together or together.count(b"\n") >= len(names) or b"" in names:
        return []
    return together.decode("utf-8", "surrogateescape").split("\n")


def _numbers(headers: Words) -> tuple[Flags, Numbers]:
    """Sizes, and whether these are plain and checksums agree. A checksum counts itself as eight spaces."""
    fields = headers[:, SIZE + CHECKSUM].T.copy()
    good = (fields[2] >> 24 <= ord(" ")) & (fields[4] >> 16 & 0xFF == 0)  # what stands behind the digits
    fields[2] = fields[2] << 8 | 0x30
    fields[4] = fields[4] << 16 | 0x3030
    good &= ((fields & NOT_A_DIGIT) == DIGITS).all(axis=0)
    fields &= 0x07070707
    fields = (fields & 0x00FF00FF) * np.uint32(8) + (fields >> 8 & 0x00FF00FF)
    first, second, third, upper, lower = ((fields & 0xFFFF) * np.uint32(64) + (fields >> 16)).astype(np.int64)
    headers[:, CHECKSUM] = SPACES  # it is a copy
    good &= _sums(headers.view(WIDE)) == (upper << 6) + lower
    return good, (first << 21) + (second << 9) + third


def _sums(wide: Wide) -> Numbers:
    """Of the bytes of each row, of at most 512: added up in pairs, then these, many at once."""
    pairs = np.add.reduce((wide & BYTES) + (wide >> np.uint64(8) & BYTES), axis=1)
    fours = (pairs & PAIRS) + (pairs >> np.uint64(16) & PAIRS)
    total: Numbers = ((fours & HALF) + (fours >> np.uint64(32))).astype(np.int64)
    return total


def _plain(headers: Words, kinds: NDArray[np.uint8], blocks: Words, places: Numbers, sizes: Numbers) -> Flags:
    """A regular file without a prefix, or an extended header of one line that tells a time: `25 mtime=…`."""
    files: Flags = (kinds == FILE) & (headers.view(np.uint8)[:, 345] == 0)
    if files.all():
        return files
    extended = (kinds == EXTENDED) & (sizes < BLOCK) & (places + 1 < len(blocks))
    begin, word, end = blocks[np.minimum(places + 1, len(blocks) - 1), :3].T
    length = (begin & 0xFF) * np.uint32(10) + (begin >> 8 & 0xFF) - ord("0") * 11
    timed = (begin >> 16 == TIME[0]) & (word == TIME[1]) & (end & 0xFF == TIME[2]) & (length == sizes)
    good: Flags = files | (extended & timed)
    return good
