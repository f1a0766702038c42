"""What stands in front of an array that numpy saved: how many bytes must follow. Nothing is unpickled."""

from __future__ import annotations

import io
import math
import warnings
from typing import NamedTuple

from ..broken import Broken

MAGIC = b"\x93NUMPY"
VERSIONS = (b"\1\0", b"\2\0", b"\3\0")
FIRST = 12
LONGEST = 1 << 16  # bytes of a header: numpy itself reads none above 10,000 without being told to


class Array(NamedTuple):
    """By its header."""

    header: int  # bytes in front of the data
    data: int | None  # bytes of it; None: objects, which only unpickling could measure
    words: str  # float32 (1000, 3)


def length_of(start: bytes) -> int:
    """Of the header with what stands before it, by its first FIRST bytes. Raises Broken."""
    if not start.startswith(MAGIC):
        kind = "damaged" if start.strip(b"\0") else "zeros"
        raise Broken(kind, f"an array begins with \\x93NUMPY; here stands {start[:6]!r}")
    if len(start) < FIRST:
        raise Broken("cut", "the array breaks off in its header")
    wide = 2 if start[6] == 1 else 4
    length = int.from_bytes(start[8 : 8 + wide], "little")
    if start[6:8] not in VERSIONS:
        raise Broken("damaged", f"the array's header is of version {start[6]}.{start[7]}, which numpy does not know")
    if length > LONGEST:
        raise Broken(
            "hostile", f"the array's header announces {length:,} bytes for itself; numpy reads no more than 10,000"
        )
    return 8 + wide + length


def array_of(start: bytes) -> Array:
    """By its header, with or without what follows. Raises Broken."""
    from numpy.lib import format as numpy_format

    end = length_of(start)
    if end > len(start):
        raise Broken("cut", f"the array breaks off in its header of {end:,} bytes")
    # Version 3 is version 2 with names of fields in UTF-8: read as Latin-1 they are wrong and change no size.
    reader = numpy_format.read_array_header_1_0 if start[6] == 1 else numpy_format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of Python 2 are read, with a warning
            shape, _, kind = reader(io.BytesIO(start[8:end]), max_header_size=LONGEST)
    except Exception as error:  # whatever numpy makes of a damaged header, it does not read it
        words = str(error).partition("\n")[0][:200] or type(error).__name__
        raise Broken("damaged", f"the array's header cannot be read: {words}") from error
    if any(side < 0 for side in shape):
        raise Broken("damaged", f"the array's header gives it the shape {shape}")
    words = f"{kind} {shape}" if len(str(kind)) < 40 else f"{len(kind.fields or ())} fields {shape}"
    return Array(end, None if kind.hasobject else math.prod(shape) * kind.itemsize, words)
