"""Images, in files of their own or in archives: JPEG, PNG, WebP, and others that only decoding judges.

Their structure is always looked at, and zeros where the picture should be. To decode them is asked for.
"""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from ...wording.text import size
from ..compression import RATIO, ROOM
from ..files import Stream
from ..notes import Broken, Notes
from . import Format

MOST = 256 << 20  # bytes of an image that is held: larger ones are maps, which are read in parts
PIECE = 1 << 18
JPEG = b"\xff\xd8\xff"
JPEG_END = b"\xff\xd9"
BASELINE = (0xC0, 0xC1)
FRAMES = (*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0))
WITHOUT_LENGTH = (0x01, 0xFF, *range(0xD0, 0xD9))  # markers without a length, and filling
TABLES, SCAN = 0xC4, 0xDA
PNG = b"\x89PNG\r\n\x1a\n"
PNG_END = b"\0\0\0\0IEND\xaeB`\x82"
PNG_END_KNOWN = 6  # bytes of it: IDAT begins otherwise
WEBP_HEADER = 12
WEBP_FRAME = 16  # bytes in front of the chunks of one picture of an animation
WEBP_COMPRESSED = (b"VP8 ", b"VP8L")
KNOWN = (JPEG, PNG, b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
# JPEG XL, JPEG 2000, Photoshop, icons, PNM: not known here, whatever their names end with, and no damage.
OTHERS = (b"\xff\x0a", b"\0\0\0\x0c", b"\xff\x4f\xff\x51", b"8BPS", b"\0\0\x01\0", b"P5", b"P6")
RUN = bytes(512)  # a disk's smallest block
NOT_ZERO = re.compile(rb"[^\0]")
BLOCK = len(RUN)
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")  # among the others are some for which Pillow starts a program
PIXELS = 2 * 89_478_485  # above twice its own bound Pillow refuses, unless it is told otherwise
LONGEST_MESSAGE = 200  # characters of what Pillow says


def begins_image(head: bytes) -> bool:
    if head.startswith(b"BM"):
        return head[6:10] == bytes(4) and int.from_bytes(head[14:18], "little") in BMP_HEADERS
    return head.startswith(KNOWN) or _is_webp(head)


def read(stream: Stream, notes: Notes) -> None:
    data = _all(stream)
    if len(data) > MOST:
        notes.facts(unread=f"an image of more than {size(MOST)}: it is not held in memory to be looked at")
        return
    notes.facts(samples=1)
    place = zeroed(data)
    if place is not None:
        notes.fault("zeros", f"zeros from byte {place:,} on, where the picture should be", at=place, lost=1)
        return
    try:
        examine(data, decoding=notes.wish.decode)
    except Broken as broken:
        if not notes.broken:
            notes.fault(broken.kind, broken.what, at=broken.at, lost=1)
    notes.facts(decoded=int(notes.wish.decode and can_decode()))


def _all(stream: Stream) -> bytes:
    parts, have, buffer = [], 0, memoryview(bytearray(PIECE))
    while have <= MOST and (got := stream.readinto(buffer)):
        parts.append(bytes(buffer[:got]))
        have += got
    return b"".join(parts)


def decoded(data: bytes | memoryview) -> str:
    try:
        examine(bytes(data), decoding=True)
    except Broken as broken:
        return broken.what
    return ""


IMAGE = Format(
    "image",
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
    begins_image,
    read,
    decoded=decoded,
    fault="image",
)


def examine(data: bytes, *, decoding: bool) -> None:
    """Raises Broken."""
    if not begins_image(data):
        if data.startswith(OTHERS) or data[4:8] == b"ftyp":  # AVIF and HEIC
            return
        raise Broken("image", f"no image begins with {data[:8]!r}", 0)
    if data.startswith(PNG):
        _examine_png(data, decoding=decoding)
    elif data.startswith(JPEG):
        _examine_jpeg(data)
    elif _is_webp(data) and _missing_bytes(data):
        what = f"it is truncated after {len(data):,} bytes: {_missing_bytes(data):,} more are declared"
        raise Broken("image", what, len(data))
    if decoding and can_decode():
        _decode(data)


def _examine_png(data: bytes, *, decoding: bool) -> None:
    """Cut between two chunks, it may have lost nothing but its end: whoever decodes it will see."""
    bad = _bad_chunk(data)
    if bad is not None and not (bad.between and decoding and can_decode()):
        raise Broken("image", bad.what, bad.at)
    _refuse_bomb(*_png_size(data), data)


def _examine_jpeg(data: bytes) -> None:
    """The mark at the end is no formality: Pillow refuses a picture without it, even where nothing else is missing."""
    segments = _segments(data)
    if segments.scan is None:
        raise Broken("image", f"its picture does not begin anywhere in its {len(data):,} bytes", segments.gap)
    _refuse_bomb(segments.width, segments.height, data)
    if data.rfind(JPEG_END) < segments.scan:
        raise Broken("image", f"it is truncated after {len(data):,} bytes: it has no end marker", len(data))


def _refuse_bomb(width: int, height: int, data: bytes) -> None:
    if 3 * width * height > max(ROOM, RATIO * len(data)):
        raise Broken("hostile", f"its {len(data):,} bytes declare {width:,} × {height:,} pixels: a bomb", 0)


def can_decode() -> bool:
    return find_spec("PIL") is not None


def _decode(data: bytes) -> None:
    """Raises Broken."""
    from PIL import Image, UnidentifiedImageError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                _bounded_for_pillow(*image.size)
                image.load()
        except Broken:
            raise
        except Image.DecompressionBombError as error:
            raise Broken("hostile", f"Pillow takes it for a bomb: {error}") from error
        except UnidentifiedImageError as error:
            if data[:2] in (b"II", b"MM"):  # TIFF is many formats, of which Pillow knows some
                return
            raise Broken("image", "Pillow finds no image in it") from error
        except Exception as error:  # whatever it raises, training would get it too
            words = " ".join(str(error).split())[:LONGEST_MESSAGE] or type(error).__name__
            raise Broken("image", f"Pillow says: {words}") from error


def _bounded_for_pillow(width: int, height: int) -> None:
    if width * height > PIXELS:
        raise Broken("hostile", f"it declares {width:,} × {height:,} pixels; Pillow refuses more than {PIXELS:,}")


def shows_zeros(head: bytes) -> bool:
    """Of a kind that zeros would tell of."""
    return head.startswith((JPEG, PNG)) or _is_webp(head)


def zeroed(data: bytes | memoryview) -> int | None:
    """Where they begin, or nothing: zeros in metadata, in padding and behind the picture harm nobody."""
    whole = bytes(data)
    if whole.find(RUN) < 0:
        return None
    if whole.startswith(JPEG):
        return _in_jpeg(whole)
    if whole.startswith(PNG):
        return _in_png(whole)
    if _is_webp(whole):
        return _in_webp(whole)
    return None


def _in_jpeg(data: bytes) -> int | None:
    segments = _segments(data)
    if segments.scan is None:
        at = data.find(RUN, segments.gap)
        return at if at >= 0 else None
    end = data.find(JPEG_END, segments.scan)
    end = end if end >= 0 else len(data)
    if segments.smooth:
        return _lost_block(data, segments.scan, end)
    at = data.find(RUN, segments.scan, end)
    return at if at >= 0 else None


def _lost_block(data: bytes, start: int, end: int) -> int | None:
    """It begins and ends where blocks of a file do; of smooth parts of a picture one in 260,000 does so."""
    at = data.find(RUN, start, end)
    while at >= 0:
        other = NOT_ZERO.search(data, at, end)
        until = end if other is None else other.start()
        if at % BLOCK == 0 and (until % BLOCK == 0 or until == len(data)):
            return at
        at = data.find(RUN, until, end)
    return None


def _in_png(data: bytes) -> int | None:
    """A picture of one colour is compressed to zeros, too; but then its checksum agrees."""
    bad = _bad_chunk(data)
    at = data.find(RUN, bad.at) if bad is not None else -1
    return at if at >= 0 else None


def _in_webp(data: bytes) -> int | None:
    """One colour becomes zeros here as well: 388 of them for 2000 × 2000 pixels."""
    for chunk in _webp_chunks(data):
        at = _lost_block(data, chunk.at, chunk.end) if chunk.kind in WEBP_COMPRESSED else None
        if at is not None:
            return at
    return None


class _Segments(NamedTuple):
    """What its segments say."""

    scan: int | None  # where the compressed data begins; None: nowhere
    gap: int | None = None  # where something else than a segment stands before it
    width: int = 0
    height: int = 0
    smooth: bool = False  # a smooth part of the picture may well be compressed to zeros


def _segments(data: bytes) -> _Segments:
    at, frame, tables, gap = 2, b"", list[int](), None
    while (found := data.find(0xFF, at)) >= 0 and found + 4 <= len(data):
        gap = at if found > at and gap is None else gap
        at, marker = found, data[found + 1]
        if marker in WITHOUT_LENGTH or not marker:
            at += 1 + (marker != 0xFF)
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        segment = data[at + 4 : end]
        if marker in FRAMES:
            frame = data[at + 1 : end]
        elif marker == TABLES:
            tables += _zero_symbols(segment)
        elif marker == SCAN:
            return _segments_before(frame, tables, segment, end)
        elif marker == 0xD9:
            break
        at = end
    return _Segments(None, at if gap is None else gap)


def _segments_before(frame: bytes, tables: list[int], scan: bytes, at: int) -> _Segments:
    height, width = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
    plain = frame[:1] and frame[0] in BASELINE and frame[8:9] == scan[:1]  # all components in one scan
    return _Segments(at, None, width, height, not plain or not any(tables))


def _zero_symbols(segment: bytes) -> list[int]:
    """Of each table in it the symbol that a code of zeros only stands for.

    In the tables of the standard, which most files have, that is a coefficient of 1: zeros are then a picture that no
    camera sees. In tables that were made for one picture it may be the end of a block: zeros are then a smooth part.
    """
    found = []
    while len(segment) > 17:
        found.append(segment[17])
        segment = segment[17 + sum(segment[1:17]) :]
    return found


class _BadChunk(NamedTuple):
    """The first chunk that is not whole."""

    at: int
    what: str
    between: bool = False  # all chunks that begin are there


def _bad_chunk(data: bytes) -> _BadChunk | None:
    """What stands behind IEND is nobody's business, and no decoder asks for the end of IEND itself."""
    at, view = len(PNG), memoryview(data)
    while at + 12 <= len(data):
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 12 + length
        if not kind.isalpha() or length >> 31:
            return _BadChunk(at, f"no chunk begins at its byte {at:,}, where one should")
        name = kind.decode()
        if end > len(data):
            return _BadChunk(
                at, f"it is truncated in its chunk {name}: {len(data) - at:,} of {length + 12:,} bytes are there"
            )
        if zlib.crc32(view[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            return _BadChunk(at, f"its chunk {name} at byte {at:,} does not agree with its checksum")
        if kind == b"IEND":
            return None
        at = end
    if len(data) - at >= PNG_END_KNOWN and PNG_END.startswith(data[at:]):
        return None
    return _BadChunk(at, f"it is truncated after {len(data):,} bytes: its last chunk, IEND, is missing", between=True)


def _png_size(data: bytes) -> tuple[int, int]:
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


class _Chunk(NamedTuple):
    """Where its data is."""

    kind: bytes
    at: int
    end: int


def _is_webp(head: bytes) -> bool:
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"


def _missing_bytes(data: bytes) -> int:
    """Bytes that it announces and that are not there: libwebp refuses it if it is one."""
    return max(0, 8 + int.from_bytes(data[4:8], "little") - len(data))


def _webp_chunks(data: bytes, at: int = WEBP_HEADER, end: int | None = None) -> Iterator[_Chunk]:
    """Also those of the pictures of an animation."""
    end = len(data) if end is None else end
    while at + 8 <= end:
        kind, start = data[at : at + 4], at + 8
        until = min(start + int.from_bytes(data[at + 4 : at + 8], "little"), end)
        yield _Chunk(kind, start, until)
        if kind == b"ANMF":
            yield from _webp_chunks(data, start + WEBP_FRAME, until)
        at = until + (until - start) % 2
