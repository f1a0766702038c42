"""Whether bytes are JSON as its readers take it, and where they stop being it."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import msgspec

# What Python's json writes and reads and msgspec does not, with words that mean as much: it is no fault of a file.
LENIENT = {b"NaN": b"null", b"-Infinity": b"null", b"Infinity": b"null", b"\\ud": b"\\u0", b"\\uD": b"\\u0"}
WIDE = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # marks of encodings, which it knows, too
TOKEN = 12
ZEROS = 16  # NULs in a row are a hole in the file; fewer may be a writer's slip
PLACE = re.compile(r" \(byte (\d+)\)$")
_skim = msgspec.json.Decoder(msgspec.Raw)  # looks at every byte and makes no objects: no document becomes a bomb


class Wrong(NamedTuple):
    """What is wrong with it, and the offset in it."""

    what: str
    at: int


class Hole(NamedTuple):
    """Zeros where something else has been."""

    at: int
    until: int


def wrong(data: bytes) -> Wrong | None:
    """Nothing, if it is one JSON document in UTF-8, or what Python's json takes for one."""
    try:
        if not data.isascii():
            data.decode()
        _skim.decode(data)
    except UnicodeDecodeError as error:
        found = Wrong(f"no UTF-8: {error.reason}", error.start)
    except RecursionError:
        return Wrong("it is nested deeper than its readers go", 0)
    except msgspec.DecodeError as error:
        found = _place(str(error), len(data))
    else:
        return None
    lenient = data.startswith(WIDE) or any(mark in data for mark in LENIENT)
    return None if lenient and _taken(data) else found


def begins(head: bytes) -> bool:
    """Whether it is JSON, as far as it goes."""
    found = wrong(head)
    return found is None or breaks_off(found, head)


def breaks_off(found: Wrong, data: bytes) -> bool:
    """Whether only its end is missing: where it was cut within a word or a character, it is wrong before its end."""
    return found.at + TOKEN >= len(data)


def hole(data: bytes) -> Hole | None:
    at = data.find(bytes(ZEROS))
    return Hole(at, len(data) - len(data[at:].lstrip(b"\0"))) if at >= 0 else None


def _place(words: str, length: int) -> Wrong:
    words = words.removeprefix("JSON is malformed: ")
    match = PLACE.search(words)
    return Wrong(PLACE.sub("", words), int(match[1]) if match is not None else length)


def _taken(data: bytes) -> bool:
    """As Python's json would, which makes objects of all it reads: so what only it takes is put in other words."""
    if data.startswith(WIDE):
        data = data.decode(json.detect_encoding(data), "replace").encode("utf-8", "replace")
    for mark, other in LENIENT.items():
        data = data.replace(mark, other)
    try:
        _skim.decode(data.decode())
    except (ValueError, RecursionError):
        return False
    return True
