"""Columns of images in tables, as `datasets` writes them: bytes, or a structure with bytes beside a path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..broken import Broken
from ..images.decoding import can_decode
from ..images.structure import known, look
from ..images.zeroed import zeroed
from ..noting import Notes, clean
from .text_values import bytes_of, holes

BYTES = "bytes"  # the field's name in a structure
HEAD = 64  # bytes by which an image is known
MOSTLY = 10  # images for each value that is none: then that one is meant to be one
KEPT = 50  # rows with such values that are remembered
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
        self._name, self._notes = clean(name), notes
        self._others: list[int] = []  # rows with something else
        self._strange = 0
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
                self._look_at(bytes(values[number].as_buffer()), row + number)

    def done(self) -> None:
        """In a column of images, what does not begin as one is a bad image. Elsewhere bytes may be anything."""
        if self.images >= self._strange * MOSTLY:
            for row in self._others:
                self._tell("image", row, "it does not begin as an image does")

    def _decode(self, data: bytes, row: int) -> None:
        if not known(data[:HEAD]):
            self._strange += 1
            self._others += [row] if len(self._others) < KEPT else []
            return
        self.images += 1
        try:
            self._look_at(data, row)
            look(data, decoding=True)
        except Broken as broken:
            self._tell(broken.kind, row, broken.what)

    def _look_at(self, data: bytes, row: int) -> None:
        place = zeroed(data)
        if place is not None:
            self._tell("zeros", row, f"zeros from its byte {place:,} on, where the picture should be")

    def _tell(self, kind: str, row: int, what: str) -> None:
        said = f"row {row:,}: the image in column {self._name} is bad: {what}"
        self._notes.fault(kind, said, member=self._name, sample=str(row), row=row, lost=1)


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
