"""Values of text as pyarrow holds them: how long, which are blank, which are not UTF-8, which have holes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

HOLE = 512  # zero bytes in one value: no text has them, a block that was never written has
STEP = HOLE // 2  # whatever is as long as a hole covers two of the places that are looked at, and all between them
FOLLOWING = -64  # bytes from there on, as signed numbers, begin a character: those below go on with one
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
NONE: Numbers = np.empty(0, np.int64)


class Values(NamedTuple):
    """Of all values together."""

    nulls: int
    blanks: int
    characters: int
    bad: Numbers  # the numbers of those that are not UTF-8
    holes: Numbers  # and of those that have a hole


class Entries(NamedTuple):
    """Of each value."""

    null: Flags
    blank: Flags
    characters: Numbers
    bad: Flags
    hole: Flags


def is_text(kind: Any) -> bool:
    import pyarrow as pa

    kind = getattr(kind, "storage_type", kind)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind) in {"string", "large_string", "string_view"}


def has_text(kind: Any) -> bool:
    """Text, or a list or a structure of it."""
    if is_text(kind):
        return True
    kind = getattr(kind, "storage_type", kind)
    return any(has_text(kind.field(number).type) for number in range(getattr(kind, "num_fields", 0)))


def together(array: Any, *, decodable: bool) -> Values:
    """Of text that may be megabytes: where all of it is ASCII, only its bytes are looked at."""
    import pyarrow.compute as pc

    array = _plain(array)
    data, starts = bytes_of(array)
    ascii_only = not len(data) or int(data.max()) < 128
    bad = NONE if ascii_only or decodable else _undecodable(array)
    nulls = array.null_count
    if len(bad):
        array = array.take(np.delete(np.arange(len(array)), bad))
    if nulls or len(bad):  # what stands in their place is not counted
        characters = pc.sum(pc.utf8_length(array)).as_py() or 0
    else:
        characters = len(data) if ascii_only else np.count_nonzero(data.view(np.int8) >= FOLLOWING)
    blanks = int(_flags(pc.utf8_is_space(array)).sum() + _flags(pc.equal(pc.binary_length(array), 0)).sum())
    return Values(nulls, blanks, int(characters), bad, holes(data, starts))


def of_each(array: Any) -> Entries:
    """Of the values of a dictionary, which are few."""
    import pyarrow.compute as pc

    array = _plain(array)
    bad, hole, blank = np.zeros((3, len(array)), np.bool_)
    bad[_undecodable(array)] = True
    hole[holes(*bytes_of(array))] = True
    good = np.flatnonzero(~bad)
    blank[good] = _flags(pc.utf8_is_space(array.take(good)))
    blank |= _flags(pc.equal(pc.binary_length(array), 0))
    lengths = pc.fill_null(pc.utf8_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return Entries(_flags(array.is_null()), blank, np.where(bad, 0, lengths), bad, hole)


def _plain(array: Any) -> Any:
    """Views are written out: hardly anything in pyarrow can work on them."""
    import pyarrow as pa

    return array.cast(pa.large_string()) if str(array.type) == "string_view" else array


def _undecodable(array: Any) -> Numbers:
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
        return np.array([number for number, one in enumerate(values) if _is_bad(one.as_py())], np.int64)
    return NONE


def _is_bad(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def _flags(array: Any) -> Flags:
    import pyarrow.compute as pc

    known = pc.fill_null(array, False) if array.null_count else array  # noqa: FBT003
    flags: Flags = known.to_numpy(zero_copy_only=False)
    return flags


def bytes_of(array: Any) -> tuple[NDArray[np.uint8], Numbers]:
    """The bytes of all values; where each begins, and where the last ends."""
    import pyarrow as pa

    _, places, data = array.buffers()
    if places is None or data is None or not len(array):
        return np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    kind = array.type
    wide = np.int64 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else np.int32
    starts = np.frombuffer(places, wide, array.offset + len(array) + 1)[array.offset :].astype(np.int64)
    return np.frombuffer(data, np.uint8)[starts[0] : starts[-1]], starts - starts[0]


def holes(data: NDArray[np.uint8], starts: Numbers) -> Numbers:
    """Values with a hole in them. What lies between two places is looked at only where both are zero."""
    zero = data[::STEP] == 0
    found = set()
    for place in (np.flatnonzero(zero[:-1] & zero[1:]) * STEP).tolist():
        value = int(np.searchsorted(starts, place, "right")) - 1
        if place + STEP < starts[value + 1] and not data[place : place + STEP].any():
            found.add(value)
    return np.array(sorted(found), np.int64)
