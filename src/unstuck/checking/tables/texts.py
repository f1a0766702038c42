"""Columns of text in tables: how many documents, how long, how many of them blank, and which cannot be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...evidence.data import Texts
from ...wording.printable import shortened
from ..noting import Notes
from .text_values import NONE, Entries, Numbers, Values, has_text, is_text, of_each, together


class TextColumns:
    """Those of one table, counted as it is read. Text within lists and structures is only decoded."""

    def __init__(self, schema: Any, notes: Notes) -> None:
        self._notes = notes
        self._flat = {number: _Column(one.name, notes) for number, one in enumerate(schema) if is_text(one.type)}
        self._deep = {
            number: _Column(one.name, notes)
            for number, one in enumerate(schema)
            if number not in self._flat and has_text(one.type)
        }

    def add(self, batch: Any, row: int, *, decodable: bool = False) -> None:
        """Some rows of the table, the first of which is `row`. `decodable`: that all is UTF-8 is known."""
        for number, column in self._flat.items():
            column.add(batch.column(number), row, decodable=decodable)
        for number, column in () if decodable else self._deep.items():
            column.tell(np.fromiter(_undecodable(batch.column(number), row), np.int64))

    def done(self) -> None:
        for column in self._flat.values():
            self._notes.text(column.texts())


class _Column:
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
            found = together(array, decodable=decodable)
        self._documents += len(array)
        self._nulls += found.nulls
        self._blanks += found.blanks
        self._characters += found.characters
        self.tell(found.bad + row, found.holes + row)

    def _entries_of(self, dictionary: Any) -> Entries:
        """Each batch has a dictionary of its own, which is mostly the same as the last one."""
        if self._dictionary is None or not dictionary.equals(self._dictionary):
            self._dictionary, self._entries = dictionary, of_each(dictionary)
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


def _by_entries(array: Any, entries: Entries) -> Values:
    """Each entry was looked at once, however often it is meant."""
    indices = array.indices.drop_null().to_numpy()
    times = np.bincount(indices, minlength=len(array.dictionary))
    if (entries.bad | entries.hole).any():
        rows = np.flatnonzero(array.indices.is_valid().to_numpy(zero_copy_only=False))
        bad, holes = rows[entries.bad[indices]], rows[entries.hole[indices]]
    else:
        bad = holes = NONE
    nulls = array.indices.null_count + int(times[entries.null].sum())
    return Values(nulls, int(times[entries.blank].sum()), int(times @ entries.characters), bad, holes)


def _undecodable(array: Any, row: int) -> Iterator[int]:
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
