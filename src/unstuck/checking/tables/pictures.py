"""Columns of images in tables, as `datasets` writes them: bytes, or a structure with bytes beside a path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...wording.printable import shortened
from ..broken import Broken
from ..images.decoding import can_decode
from ..images.structure import known, look
from ..images.zeroed import zeroed
from ..noting import Notes
from .text_values import bytes_of, holes

BYTES = "bytes"  # the field's name in a structure
HEAD = 64  # bytes by which an image is known
MOSTLY = 10  # images for each value that is none: then that one is meant to be one
KEPT = 10_000  # bad ones that are remembered until it is known whether the column has images
ZEROS = "zeros from its byte {:,} on, where the picture should be"
LARGEST = 256 << 20  # bytes of an image


class PictureColumns:
    """Those of one table. Zeros where a picture should be are always looked for; to decode them is asked for."""

    def __init__(self, schema: Any, notes: Notes) -> None:
        self._notes = notes
        self._columns = {number: _Column(one.name, notes) for number, one in enumerate(schema) if _is_binary(one.type)}

    def add(self, batch: Any, row: int) -> None:
        """Some rows of the table, the first of which is `row`."""
        for number, column in self._columns.items():
            column.add(batch.column(number), row)

    def done(self) -> None:
        for column in self._columns.values():
            column.done()
        decoded = sum(column.images for column in self._columns.values())
        self._notes.facts(decoded=decoded if self._notes.wish.decode and can_decode() else 0)


class _Column:
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
            for number, data in _each(values):
                self._decode(data, row + number)
        else:
            for number in holes(*bytes_of(values)).tolist():
                place = zeroed(values[number].as_buffer())
                if place is not None:
                    self._tell("zeros", row + number, ZEROS.format(place))

    def done(self) -> None:
        """In a column of images what does not begin as one is bad, too. Elsewhere bytes may be anything."""
        for kind, row, what in self._bad if self.images >= self._others * MOSTLY else ():
            self._tell(kind, row, what)

    def _decode(self, data: bytes, row: int) -> None:
        broken = _broken(data)
        is_image = known(data[:HEAD])
        self.images += is_image
        self._others += not is_image
        if broken is not None and len(self._bad) < KEPT:
            self._bad.append((broken.kind, row, broken.what))

    def _tell(self, kind: str, row: int, what: str) -> None:
        said = f"row {row:,}: the image in column {self._name} is bad: {what}"
        self._notes.fault(kind, said, member=self._name, sample=str(row), row=row, lost=1)


def _broken(data: bytes) -> Broken | None:
    place = zeroed(data)
    if place is not None:
        return Broken("zeros", ZEROS.format(place))
    try:
        look(data, decoding=True)
    except Broken as broken:
        return broken
    return None


def _is_binary(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        number = kind.get_field_index(BYTES)
        return number >= 0 and _is_binary(kind.field(number).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _each(values: Any) -> Iterator[tuple[int, bytes]]:
    for number, value in enumerate(values):
        data = value.as_buffer()
        if data is not None and data.size <= LARGEST:
            yield number, bytes(data)
