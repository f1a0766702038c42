"""The structure of JPEG: segments up to the compressed data, and the mark at its end."""

from __future__ import annotations

from typing import NamedTuple

MAGIC = b"\xff\xd8\xff"
END = b"\xff\xd9"
BASELINE = (0xC0, 0xC1)
FRAMES = (*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0))
ALONE = (0x01, 0xFF, *range(0xD0, 0xD9))  # markers without a length, and filling
TABLES, SCAN = 0xC4, 0xDA


class Layout(NamedTuple):
    """What its segments say."""

    scan: int | None  # where the compressed data begins; None: nowhere
    gap: int | None = None  # where something else than a segment stands before it
    width: int = 0
    height: int = 0
    smooth: bool = False  # a smooth part of the picture may well be compressed to zeros


def layout(data: bytes) -> Layout:
    at, frame, tables, gap = 2, b"", list[int](), None
    while (found := data.find(0xFF, at)) >= 0 and found + 4 <= len(data):
        gap = at if found > at and gap is None else gap
        at, marker = found, data[found + 1]
        if marker in ALONE or not marker:
            at += 1 + (marker != 0xFF)
            continue
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        segment = data[at + 4 : end]
        if marker in FRAMES:
            frame = data[at + 1 : end]
        elif marker == TABLES:
            tables += _zero_symbols(segment)
        elif marker == SCAN:
            return _of(frame, tables, segment, end)
        elif marker == 0xD9:
            break
        at = end
    return Layout(None, at if gap is None else gap)


def _of(frame: bytes, tables: list[int], scan: bytes, at: int) -> Layout:
    height, width = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
    plain = frame[:1] and frame[0] in BASELINE and frame[8:9] == scan[:1]  # all components in one scan
    return Layout(at, None, width, height, not plain or not any(tables))


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
