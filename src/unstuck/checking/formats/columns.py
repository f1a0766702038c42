"""The columns of a table, as parquet and arrow files have them: what they hold, beyond that it was decoded.

Of text: how many documents, how long, how many of them blank, which are not UTF-8 and which have holes. Of images, as
`datasets` writes them, bytes or a structure with bytes beside a path: zeros, and what cannot be decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...evidence.data import Texts
from ...wording.printable import shortened
from ..notes import Broken, Notes
from .images import begins_image, can_decode, examine, zeroed

HOLE = 512  # zero bytes in one value: no text has them, a block that was never written has
STEP = HOLE // 2  # whatever is as long as a hole covers two of the places that are looked at, and all between them
FOLLOWING = -64  # bytes from there on, as signed numbers, begin a character: those below go on with one
BYTES = "bytes"  # the field's name in a structure
IMAGE_HEAD = 64  # bytes by which an image is known
MOSTLY = 10  # images for each value that is none: then that one is meant to be one
MOST_BAD = 10_000  # bad ones that are remembered until it is known whether the column has images
ZEROS = "zeros from its byte {:,} on, where the picture should be"
LARGEST_IMAGE = 256 << 20  # bytes of an image
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
NONE: Numbers = np.empty(0, np.int64)


def columns_of(schema: Any) -> dict[str, str]:
    """Names and types."""
    return {shortened(field.name): shortened(str(field.type)) for field in schema}


class Contents:
    """Its columns of text and of images, in batches as they come."""

    def __init__(self, schema: Any, notes: Notes) -> None:
        self._texts = _TextColumns(schema, notes)
        self._images = _ImageColumns(schema, notes)

    def add(self, batch: Any, row: int, *, decodable: bool = False) -> None:
        """Some rows of the table, the first of which is `row`. `decodable`: that all is UTF-8 is known."""
        self._texts.add(batch, row, decodable=decodable)
        self._images.add(batch, row)

    def done(self) -> None:
        self._texts.done()
        self._images.done()


class _TextColumns:
    """Those of one table, counted as it is read. Text within lists and structures is only decoded."""

    def __init__(self, schema: Any, notes: Notes) -> None:
        self._notes = notes
        self._flat = {
            number: _TextColumn(field.name, notes) for number, field in enumerate(schema) if _is_text(field.type)
        }
        self._deep = {
            number: _TextColumn(field.name, notes)
            for number, field in enumerate(schema)
            if number not in self._flat and _has_text(field.type)
        }

    def add(self, batch: Any, row: int, *, decodable: bool = False) -> None:
        """Some rows of the table, the first of which is `row`. `decodable`: that all is UTF-8 is known."""
        for number, column in self._flat.items():
            column.add(batch.column(number), row, decodable=decodable)
        for number, column in () if decodable else self._deep.items():
            column.tell(np.fromiter(_undecodable_rows(batch.column(number), row), np.int64))

    def done(self) -> None:
        for column in self._flat.values():
            self._notes.text(column.texts())


class _TextColumn:
    """One of them: what was counted so far."""

    def __init__(self, name: str, notes: Notes) -> None:
        self._name, self._notes = shortened(name), notes
        self._documents = self._nulls = 0
        self._blanks = self._characters = 0
        self._dictionary: Any = None

    def add(self, array: Any, row: int, *, decodable: bool) -> None:
        array = getattr(array, "storage", array)
        if hasattr(array, "dictionary"):
            found = _by_entries(array, self._entries_of(array.dictionary))
        else:
            found = _measured(array, decodable=decodable)
        self._documents += len(array)
        self._nulls += found.nulls
        self._blanks += found.blanks
        self._characters += found.characters
        self.tell(found.bad + row, found.holes + row)

    def _entries_of(self, dictionary: Any) -> _TextEntries:
        """Each batch has a dictionary of its own, which is mostly the same as the last one."""
        if self._dictionary is None or not dictionary.equals(self._dictionary):
            self._dictionary, self._entries = dictionary, _measured_each(dictionary)
        return self._entries

    def tell(self, bad: Numbers, holes: Numbers | None = None) -> None:
        for row in bad.tolist():
            what = f"row {row:,}: the text in column {self._name} is not UTF-8"
            self._notes.fault("undecodable", what, member=self._name, sample=str(row), row=row, lost=1)
        for row in holes.tolist() if holes is not None else ():
            what = f"row {row:,}: the text in column {self._name} has hundreds of zero bytes in a row"
            self._notes.fault("zeros", what, member=self._name, sample=str(row), row=row, lost=1)

    def texts(self) -> Texts:
        return Texts(self._name, self._documents, self._nulls, self._blanks, self._characters)


def _by_entries(array: Any, entries: _TextEntries) -> _TextValues:
    """Each entry was looked at once, however often it is meant."""
    indices = array.indices.drop_null().to_numpy()
    times = np.bincount(indices, minlength=len(array.dictionary))
    if (entries.bad | entries.hole).any():
        rows = np.flatnonzero(array.indices.is_valid().to_numpy(zero_copy_only=False))
        bad, holes = rows[entries.bad[indices]], rows[entries.hole[indices]]
    else:
        bad = holes = NONE
    nulls = array.indices.null_count + int(times[entries.null].sum())
    return _TextValues(nulls, int(times[entries.blank].sum()), int(times @ entries.characters), bad, holes)


def _undecodable_rows(array: Any, row: int) -> Iterator[int]:
    """Rows of a nested column in which some text is not UTF-8. pyarrow does not say which: so they are taken out."""
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        for number, value in enumerate(array):
            try:
                value.as_py()
            except UnicodeDecodeError:
                yield row + number


class _TextValues(NamedTuple):
    """Of all values together."""

    nulls: int
    blanks: int
    characters: int
    bad: Numbers  # the numbers of those that are not UTF-8
    holes: Numbers  # and of those that have a hole


class _TextEntries(NamedTuple):
    """Of each value."""

    null: Flags
    blank: Flags
    characters: Numbers
    bad: Flags
    hole: Flags


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    kind = getattr(kind, "storage_type", kind)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return str(kind) in {"string", "large_string", "string_view"}


def _has_text(kind: Any) -> bool:
    """Text, or a list or a structure of it."""
    if _is_text(kind):
        return True
    kind = getattr(kind, "storage_type", kind)
    return any(_has_text(kind.field(number).type) for number in range(getattr(kind, "num_fields", 0)))


def _measured(array: Any, *, decodable: bool) -> _TextValues:
    """Of text that may be megabytes: where all of it is ASCII, only its bytes are looked at."""
    import pyarrow.compute as pc

    array = _without_views(array)
    data, starts = _bytes_of(array)
    ascii_only = not len(data) or int(data.max()) < 128
    bad = NONE if ascii_only or decodable else _undecodable_values(array)
    nulls = array.null_count
    if len(bad):
        array = array.take(np.delete(np.arange(len(array)), bad))
    if nulls or len(bad):  # what stands in their place is not counted
        characters = pc.sum(pc.utf8_length(array)).as_py() or 0
    else:
        characters = len(data) if ascii_only else np.count_nonzero(data.view(np.int8) >= FOLLOWING)
    blanks = int(
        _filled_flags(pc.utf8_is_space(array)).sum() + _filled_flags(pc.equal(pc.binary_length(array), 0)).sum()
    )
    return _TextValues(nulls, blanks, int(characters), bad, _holes(data, starts))


def _measured_each(array: Any) -> _TextEntries:
    """Of the values of a dictionary, which are few."""
    import pyarrow.compute as pc

    array = _without_views(array)
    bad, hole, blank = np.zeros((3, len(array)), np.bool_)
    bad[_undecodable_values(array)] = True
    hole[_holes(*_bytes_of(array))] = True
    good = np.flatnonzero(~bad)
    blank[good] = _filled_flags(pc.utf8_is_space(array.take(good)))
    blank |= _filled_flags(pc.equal(pc.binary_length(array), 0))
    lengths = pc.fill_null(pc.utf8_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return _TextEntries(_filled_flags(array.is_null()), blank, np.where(bad, 0, lengths), bad, hole)


def _without_views(array: Any) -> Any:
    """Views are written out: hardly anything in pyarrow can work on them."""
    import pyarrow as pa

    return array.cast(pa.large_string()) if str(array.type) == "string_view" else array


def _undecodable_values(array: Any) -> Numbers:
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
        return np.array([number for number, value in enumerate(values) if _is_undecodable(value.as_py())], np.int64)
    return NONE


def _is_undecodable(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return True
    return False


def _filled_flags(array: Any) -> Flags:
    import pyarrow.compute as pc

    known = pc.fill_null(array, False) if array.null_count else array  # noqa: FBT003
    flags: Flags = known.to_numpy(zero_copy_only=False)
    return flags


class _ImageColumns:
    """Those of one table. Zeros where a picture should be are always looked for; to decode them is asked for."""

    def __init__(self, schema: Any, notes: Notes) -> None:
        self._notes = notes
        self._columns = {
            number: _ImageColumn(field.name, notes) for number, field in enumerate(schema) if _is_binary(field.type)
        }

    def add(self, batch: Any, row: int) -> None:
        """Some rows of the table, the first of which is `row`."""
        for number, column in self._columns.items():
            column.add(batch.column(number), row)

    def done(self) -> None:
        for column in self._columns.values():
            column.done()
        decoded = sum(column.images for column in self._columns.values())
        self._notes.facts(decoded=decoded if self._notes.wish.decode and can_decode() else 0)


class _ImageColumn:
    """One of them: its images so far, and what is bad."""

    def __init__(self, name: str, notes: Notes) -> None:
        self._name, self._notes = shortened(name), notes
        self._bad: list[tuple[str, int, str]] = []  # kind, row, and what is wrong
        self._others = 0  # values that do not begin as an image does
        self.images = 0

    def add(self, array: Any, row: int) -> None:
        import pyarrow as pa

        values = array.field(BYTES) if pa.types.is_struct(array.type) else array
        if pa.types.is_dictionary(values.type):  # so few that they are no pictures
            return
        if self._notes.wish.decode:
            for number, data in _each_value(values):
                self._decode(data, row + number)
        else:
            for number in _holes(*_bytes_of(values)).tolist():
                place = zeroed(values[number].as_buffer())
                if place is not None:
                    self._tell("zeros", row + number, ZEROS.format(place))

    def done(self) -> None:
        """In a column of images what does not begin as one is bad, too. Elsewhere bytes may be anything."""
        for kind, row, what in self._bad if self.images >= self._others * MOSTLY else ():
            self._tell(kind, row, what)

    def _decode(self, data: bytes, row: int) -> None:
        broken = _fault_of(data)
        is_image = begins_image(data[:IMAGE_HEAD])
        self.images += is_image
        self._others += not is_image
        if broken is not None and len(self._bad) < MOST_BAD:
            self._bad.append((broken.kind, row, broken.what))

    def _tell(self, kind: str, row: int, what: str) -> None:
        said = f"row {row:,}: the image in column {self._name} is bad: {what}"
        self._notes.fault(kind, said, member=self._name, sample=str(row), row=row, lost=1)


def _fault_of(data: bytes) -> Broken | None:
    place = zeroed(data)
    if place is not None:
        return Broken("zeros", ZEROS.format(place))
    try:
        examine(data, decoding=True)
    except Broken as broken:
        return broken
    return None


def _is_binary(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        number = kind.get_field_index(BYTES)
        return number >= 0 and _is_binary(kind.field(number).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _each_value(values: Any) -> Iterator[tuple[int, bytes]]:
    for number, value in enumerate(values):
        data = value.as_buffer()
        if data is not None and data.size <= LARGEST_IMAGE:
            yield number, bytes(data)


def _bytes_of(array: Any) -> tuple[NDArray[np.uint8], Numbers]:
    """The bytes of all values; where each begins, and where the last ends."""
    import pyarrow as pa

    _, places, data = array.buffers()
    if places is None or data is None or not len(array):
        return np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    kind = array.type
    wide = np.int64 if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) else np.int32
    starts = np.frombuffer(places, wide, array.offset + len(array) + 1)[array.offset :].astype(np.int64)
    return np.frombuffer(data, np.uint8)[starts[0] : starts[-1]], starts - starts[0]


def _holes(data: NDArray[np.uint8], starts: Numbers) -> Numbers:
    """Values with a hole in them. What lies between two places is looked at only where both are zero."""
    zero = data[::STEP] == 0
    found = set()
    for place in (np.flatnonzero(zero[:-1] & zero[1:]) * STEP).tolist():
        value = int(np.searchsorted(starts, place, "right")) - 1
        if place + STEP < starts[value + 1] and not data[place : place + STEP].any():
            found.add(value)
    return np.array(sorted(found), np.int64)
