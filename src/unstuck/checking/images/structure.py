"""What the structure of an image shows, before it is decoded and where it is not."""

from __future__ import annotations

from ..broken import Broken
from ..compression import RATIO, ROOM
from . import jpeg, png, webp
from .decoding import can_decode, decode

KNOWN = (jpeg.MAGIC, png.MAGIC, b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
BMP_HEADERS = (12, 40, 52, 56, 64, 108, 124)
# JPEG XL, JPEG 2000, Photoshop, icons, PNM: not known here, whatever their names end with, and no damage.
OTHERS = (b"\xff\x0a", b"\0\0\0\x0c", b"\xff\x4f\xff\x51", b"8BPS", b"\0\0\x01\0", b"P5", b"P6")


def known(head: bytes) -> bool:
    if head.startswith(b"BM"):
        return head[6:10] == bytes(4) and int.from_bytes(head[14:18], "little") in BMP_HEADERS
    return head.startswith(KNOWN) or webp.is_webp(head)


def look(data: bytes, *, decoding: bool) -> None:
    """Raises Broken."""
    if not known(data):
        if data.startswith(OTHERS) or data[4:8] == b"ftyp":  # AVIF and HEIC
            return
        raise Broken("image", f"no image begins with {data[:8]!r}", 0)
    if data.startswith(png.MAGIC):
        _png(data, decoding=decoding)
    elif data.startswith(jpeg.MAGIC):
        _jpeg(data)
    elif webp.is_webp(data) and webp.missing(data):
        what = f"it breaks off after {len(data):,} bytes: {webp.missing(data):,} more are announced"
        raise Broken("image", what, len(data))
    if decoding and can_decode():
        decode(data)


def _png(data: bytes, *, decoding: bool) -> None:
    """Cut between two chunks, it may have lost nothing but its end: whoever decodes it will see."""
    bad = png.bad_chunk(data)
    if bad is not None and not (bad.between and decoding and can_decode()):
        raise Broken("image", bad.what, bad.at)
    _bounded(*png.pixels(data), data)


def _jpeg(data: bytes) -> None:
    """The mark at the end is no formality: Pillow refuses a picture without it, even where nothing else is missing."""
    layout = jpeg.layout(data)
    if layout.scan is None:
        raise Broken("image", f"its picture does not begin anywhere in its {len(data):,} bytes", layout.gap)
    _bounded(layout.width, layout.height, data)
    if data.rfind(jpeg.END) < layout.scan:
        raise Broken("image", f"it breaks off after {len(data):,} bytes: nothing marks its end", len(data))


def _bounded(width: int, height: int, data: bytes) -> None:
    if 3 * width * height > max(ROOM, RATIO * len(data)):
        raise Broken("hostile", f"its {len(data):,} bytes announce {width:,} × {height:,} pixels: a bomb", 0)
