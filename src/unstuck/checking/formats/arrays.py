"""Arrays that numpy saved, and tensors that safetensors saved: what stands in front of them, and what must follow.

Nothing is unpickled.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from functools import partial
from typing import IO, NamedTuple

import msgspec

from ...wording.printable import shortened
from ..files import Stream
from ..notes import Broken, Notes
from . import Format, first_fault

MAGIC = b"\x93NUMPY"
VERSIONS = (b"\1\0", b"\2\0", b"\3\0")
HEADER_START = 12
LONGEST_HEADER = 1 << 16  # bytes of a header: numpy itself reads none above 10,000 without being told to
LENGTH = 8
LONGEST_TENSORS = (
    16 << 20
)  # bytes of a header: 150,000 tensors. Its own reader takes 100 MB, of which objects would take 3 GB
# F32, BF16, U8, F8_E4M3. Types that are newer than we are will be called alike, with their bits in the name.
KIND = re.compile(r"(?:BF|F|I|U|C)([1-6]|8|16|32|64|128)(?:_[A-Z0-9]+)?|BOOL")
PIECE = 1 << 18
ALL = 1 << 62


def _claims_npy(head: bytes) -> bool:
    return head.startswith(MAGIC)


def _read_npy(stream: Stream, notes: Notes) -> None:
    at = arrays = 0
    try:
        while start := _take(stream, HEADER_START):
            array = _next_array(start, stream, at, arrays)
            have = _pass_over(stream, ALL if array.data is None else array.data)
            at += array.header + have
            _compare_array(array, have, at)
            arrays += 1
    except Broken as broken:
        if broken.kind != "cut" or not notes.broken:
            notes.fault(broken.kind, broken.what, at=at if broken.at is None else broken.at)
    notes.facts(members=arrays)


def _next_array(start: bytes, stream: Stream, at: int, number: int) -> Array:
    if number and not start.startswith(MAGIC):
        raise Broken("damaged", f"after its array, from byte {at:,} on, comes something else", at)
    return array_of(start + _take(stream, _length_of_array_header(start) - len(start)))


def _compare_array(array: Array, have: int, at: int) -> None:
    """Objects are not unpickled: only who does that knows where they end."""
    if array.data is not None and have < array.data:
        raise Broken("cut", f"its array of {array.words} has {array.data:,} bytes; {have:,} of them are there", at)


def _glance_at_npy(raw: IO[bytes], notes: Notes) -> None:
    """Its first header, and whether as many bytes follow."""
    raw.seek(0)
    start = raw.read(LONGEST_HEADER + HEADER_START)
    notes.moved(len(start))
    try:
        array = array_of(start)
        _compare_array(array, notes.size - array.header, notes.size)
    except Broken as broken:
        notes.fault(broken.kind, broken.what, at=broken.at or 0)


class Array(NamedTuple):
    """By its header."""

    header: int  # bytes in front of the data
    data: int | None  # bytes of it; None: objects, which only unpickling could measure
    words: str  # float32 (1000, 3)


def _length_of_array_header(start: bytes) -> int:
    """Of the header with what stands before it, by its first FIRST bytes. Raises Broken."""
    if not start.startswith(MAGIC):
        kind = "damaged" if start.strip(b"\0") else "zeros"
        raise Broken(kind, f"an array begins with \\x93NUMPY, this file with {start[:6]!r}")
    if len(start) < HEADER_START:
        raise Broken("cut", "the array is truncated in its header")
    wide = 2 if start[6] == 1 else 4
    length = int.from_bytes(start[8 : 8 + wide], "little")
    if start[6:8] not in VERSIONS:
        raise Broken("damaged", f"the array's header is of version {start[6]}.{start[7]}, which numpy does not know")
    if length > LONGEST_HEADER:
        raise Broken(
            "hostile", f"the array's header declares a length of {length:,} bytes; numpy reads no more than 10,000"
        )
    return 8 + wide + length


def array_of(start: bytes) -> Array:
    """By its header, with or without what follows. Raises Broken."""
    from numpy.lib import format as numpy_format

    end = _length_of_array_header(start)
    if end > len(start):
        raise Broken("cut", f"the array is truncated in its header of {end:,} bytes")
    # Version 3 is version 2 with names of fields in UTF-8: read as Latin-1 they are wrong and change no size.
    reader = numpy_format.read_array_header_1_0 if start[6] == 1 else numpy_format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of Python 2 are read, with a warning
            shape, _, kind = reader(io.BytesIO(start[8:end]), max_header_size=LONGEST_HEADER)
    except Exception as error:  # whatever numpy makes of a damaged header, it does not read it
        words = str(error).partition("\n")[0][:200] or type(error).__name__
        raise Broken("damaged", f"the array's header cannot be read: {words}") from error
    if any(side < 0 for side in shape):
        raise Broken("damaged", f"the array's header gives it the shape {shape}")
    words = f"{kind} {shape}" if len(str(kind)) < 40 else f"{len(kind.fields or ())} fields {shape}"
    return Array(end, None if kind.hasobject else math.prod(shape) * kind.itemsize, words)


def _claims_tensors(head: bytes) -> bool:
    """The length of a header, which is none of several GiB, and its first bracket."""
    return len(head) > LENGTH and head[4:9] == b"\0\0\0\0{" and head[9:].lstrip()[:1] in (b'"', b"}", b"")


def _read_tensors(stream: Stream, notes: Notes) -> None:
    try:
        length = _length_of_header(_take(stream, LENGTH))
        tensors = _tensors_of(_take(stream, length), length)
        notes.facts(members=tensors.count)
        _compare_tensors(tensors, LENGTH + length, _pass_over(stream))
    except Broken as broken:
        _note(broken, notes)


def _glance_at_tensors(raw: IO[bytes], notes: Notes) -> None:
    """Its header, and whether as many bytes follow."""
    raw.seek(0)
    try:
        length = _length_of_header(raw.read(LENGTH))
        header = raw.read(length)
        notes.moved(LENGTH + len(header))
        _compare_tensors(_tensors_of(header, length), LENGTH + length, notes.size - LENGTH - length)
    except Broken as broken:
        _note(broken, notes)


def _length_of_header(start: bytes) -> int:
    """Of the header."""
    length = int.from_bytes(start, "little")
    if len(start) < LENGTH:
        raise Broken("cut", f"it is truncated in the length of its header, after {len(start)} bytes", len(start))
    if not length:
        raise Broken("zeros" if not start.strip(b"\0") else "damaged", "the length of its header is 0", 0)
    if length > LONGEST_TENSORS:
        raise Broken(
            "hostile", f"it declares a header of {length:,} bytes; no more than {LONGEST_TENSORS:,} are read", 0
        )
    return length


def _tensors_of(header: bytes, length: int) -> _Tensors:
    if len(header) < length:
        what = f"it is truncated in its header: {len(header):,} of {length:,} bytes are there"
        raise Broken("cut", what, LENGTH + len(header))
    return _Tensors(header)


def _compare_tensors(tensors: _Tensors, start: int, have: int) -> None:
    if have < tensors.size:
        what = f"its {tensors.count:,} tensors have {tensors.size:,} bytes; {have:,} of them are there"
        raise Broken("cut", what, start + have)
    if have > tensors.size:
        what = f"{have - tensors.size:,} bytes follow its tensors, which its readers refuse"
        raise Broken("damaged", what, start + tensors.size)


def _note(broken: Broken, notes: Notes) -> None:
    if broken.kind != "cut" or not notes.broken:
        notes.fault(broken.kind, shortened(broken.what), at=broken.at)


class _Tensor(msgspec.Struct, frozen=True):
    """One entry of the header."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


_entries = msgspec.json.Decoder(dict[str, msgspec.Raw])
_metadata = msgspec.json.Decoder(dict[str, str])
_entry = msgspec.json.Decoder(_Tensor)


class _Tensors:
    """All of them, in the order of their data."""

    def __init__(self, header: bytes) -> None:
        """Raises Broken."""
        try:
            header.decode()
            entries = _entries.decode(header)
            _metadata.decode(entries.pop("__metadata__", msgspec.Raw(b"{}")))
            self._all = sorted(
                ((name, _entry.decode(raw)) for name, raw in entries.items()), key=lambda entry: entry[1].data_offsets
            )
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Broken("damaged", f"its header cannot be read: {error}") from error
        self.count = len(self._all)
        self.size = self._all[-1][1].data_offsets[1] if self._all else 0
        self._judge()

    def _judge(self) -> None:
        end = 0
        for name, tensor in self._all:
            start, until = tensor.data_offsets
            if start != end or until < start:
                raise Broken(
                    "damaged", f"the header puts {name} at bytes {start:,} to {until:,}; {end:,} is where it must begin"
                )
            end = until
            bits = _bits(tensor.dtype)
            needed = math.prod(tensor.shape) * bits
            if not bits or needed != 8 * (until - start) or min(tensor.shape, default=0) < 0:
                what = f"{name} is {tensor.dtype} {tensor.shape}, {needed // 8:,} bytes, and has {until - start:,}"
                raise Broken("damaged", what)


def _bits(kind: str) -> int:
    """Of one value; 0: there is no such type."""
    found = KIND.fullmatch(kind)
    return 0 if found is None else int(found[1] or 8)


def _take(stream: Stream, count: int) -> bytes:
    """So many, but for the end of the file."""
    data = bytearray(count)
    return bytes(data[: stream.readinto(memoryview(data))])


def _pass_over(stream: Stream, count: int = ALL) -> int:
    """How many of so many there are."""
    have, buffer = 0, memoryview(bytearray(PIECE))
    while have < count and (got := stream.readinto(buffer[: count - have])):
        have += got
    return have


NPY = Format("npy", (".npy",), _claims_npy, _read_npy, _glance_at_npy, partial(first_fault, _read_npy))
SAFETENSORS = Format(
    "safetensors",
    (".safetensors",),
    _claims_tensors,
    _read_tensors,
    _glance_at_tensors,
    partial(first_fault, _read_tensors),
)
