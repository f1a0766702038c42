"""Headers of tar archives: 512 bytes with a checksum, in the forms that writers really write.

They are read one by one, or all that a window holds at once: numpy looks at those together. Nearly all members are of
one kind: a regular file with a short name, perhaps with an extended header in front that tells a time. One by one, a
header costs 4 µs; so, a tenth of that. Whatever is not plain ends a batch, and is left to who reads one by one.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 512
ZEROS = bytes(BLOCK)
REGULAR = (b"0", b"\0", b"7", b"S")
LINKS = (b"1", b"2")
LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL, SPARSE = b"L", b"K", b"x", b"g", b"S"
EXTENSIONS = (LONG_NAME, LONG_LINK, PAX, PAX_GLOBAL, b"X")
# What has no data whatever its size says, as Python's tarfile sees it: links, devices, folders, pipes.
WITHOUT_DATA = (b"1", b"2", b"3", b"4", b"5", b"6")
BASE = 65521  # of Adler-32, whose lower half is the sum of all bytes: fifty times faster than adding them up here
LARGEST = 1 << 63
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


class Header(NamedTuple):
    """One member, as far as its own block tells."""

    name: bytes
    size: int
    kind: bytes
    link: bytes
    extended: bool = False  # a sparse file with more of its map in the blocks that follow

    @property
    def padded(self) -> int:
        """Bytes of its data in the archive."""
        return 0 if self.kind in WITHOUT_DATA else -(-self.size // BLOCK) * BLOCK


def parse(raw: bytes) -> Header | None:
    """None: it is no header, or a damaged one."""
    if not _adds_up(raw):
        return None
    size = _number(raw[124:136])
    if size is None or not 0 <= size < LARGEST:
        return None
    kind, name = raw[156:157], raw[:100].partition(b"\0")[0]
    if raw[257:263] == b"ustar\0" and raw[345] and kind != SPARSE:
        name = raw[345:500].partition(b"\0")[0] + b"/" + name
    if kind == b"\0" and name.endswith(b"/"):
        kind = b"5"
    return Header(name, size, kind, raw[157:257].partition(b"\0")[0], kind == SPARSE and raw[482] == 1)


def _adds_up(raw: bytes) -> bool:
    field = raw[148:156]
    stored = _number(field)
    if stored is None:
        return False
    apart = sum(field) - 8 * 0x20  # the checksum counts itself as eight spaces
    if zlib.adler32(raw) & 0xFFFF == (stored + apart + 1) % BASE:
        return True
    signed = sum(raw) - 256 * sum(byte > 127 for byte in raw)  # old writers add up signed characters
    return signed - sum(field) + 8 * 0x20 == stored and raw != ZEROS


def _number(field: bytes) -> int | None:
    """Octal digits; or, where it is too large for these, binary."""
    if field[0] in (0x80, 0xFF):
        value = int.from_bytes(field[1:], "big")
        return value if field[0] == 0x80 else value - (1 << 8 * (len(field) - 1))
    digits = field.partition(b"\0")[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def pax(data: bytes) -> dict[bytes, bytes] | None:
    """`25 path=some/long/name` lines. None: it is damaged."""
    found, at = {}, 0
    while at < len(data) and data[at] != 0:
        length, _, _ = data[at : at + 20].partition(b" ")
        if not length.isdigit() or not 5 <= int(length) <= len(data) - at:
            return None
        line = data[at + len(length) + 1 : at + int(length)]
        key, equals, value = line.partition(b"=")
        if not equals or not line.endswith(b"\n"):
            return None
        found[key] = value[:-1]
        at += int(length)
    return found


def look_for(data: bytes | bytearray, start: int, end: int, phase: int) -> int | None:
    """Where the next good header stands; blocks begin where `position % 512 == phase`."""
    at = start + 257
    while (at := data.find(b"ustar", at, end)) >= 0:
        place = at - 257
        if place % BLOCK == phase and place + BLOCK <= end and parse(bytes(data[place : place + BLOCK])) is not None:
            return place
        at += 1
    return None


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
