"""Zeros in an image where the compressed picture should be: most decoders show them as grey, and say nothing."""

from __future__ import annotations

import re

from . import jpeg, png, webp

RUN = bytes(512)  # a disk's smallest block
OTHER = re.compile(rb"[^\0]")
BLOCK = len(RUN)


def is_image(head: bytes) -> bool:
    """Of a kind that zeros would tell of."""
    return head.startswith((jpeg.MAGIC, png.MAGIC)) or webp.is_webp(head)


def zeroed(data: bytes | memoryview) -> int | None:
    """Where they begin, or nothing: zeros in metadata, in padding and behind the picture harm nobody."""
    whole = bytes(data)
    if whole.find(RUN) < 0:
        return None
    if whole.startswith(jpeg.MAGIC):
        return _in_jpeg(whole)
    if whole.startswith(png.MAGIC):
        return _in_png(whole)
    if webp.is_webp(whole):
        return _in_webp(whole)
    return None


def _in_jpeg(data: bytes) -> int | None:
    layout = jpeg.layout(data)
    if layout.scan is None:
        at = data.find(RUN, layout.gap)
        return at if at >= 0 else None
    end = data.find(jpeg.END, layout.scan)
    end = end if end >= 0 else len(data)
    if layout.smooth:
        return _lost_block(data, layout.scan, end)
    at = data.find(RUN, layout.scan, end)
    return at if at >= 0 else None


def _lost_block(data: bytes, start: int, end: int) -> int | None:
    """It begins and ends where blocks of a file do; of smooth parts of a picture one in 260,000 does so."""
    at = data.find(RUN, start, end)
    while at >= 0:
        other = OTHER.search(data, at, end)
        until = end if other is None else other.start()
        if at % BLOCK == 0 and (until % BLOCK == 0 or until == len(data)):
            return at
        at = data.find(RUN, until, end)
    return None


def _in_png(data: bytes) -> int | None:
    """A picture of one colour is compressed to zeros, too; but then its checksum agrees."""
    bad = png.bad_chunk(data)
    at = data.find(RUN, bad.at) if bad is not None else -1
    return at if at >= 0 else None


def _in_webp(data: bytes) -> int | None:
    """One colour becomes zeros here as well: 388 of them for 2000 × 2000 pixels."""
    for chunk in webp.chunks(data):
        at = _lost_block(data, chunk.at, chunk.end) if chunk.kind in webp.COMPRESSED else None
        if at is not None:
            return at
    return None
