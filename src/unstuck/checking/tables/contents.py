"""What the rows of a table hold, as far as more can be said of it than that it was decoded."""

from __future__ import annotations

from typing import Any

from ...wording.printable import shortened
from ..noting import Notes
from .pictures import PictureColumns
from .texts import TextColumns


def columns_of(schema: Any) -> dict[str, str]:
    """Names and types."""
    return {shortened(one.name): shortened(str(one.type)) for one in schema}


class Contents:
    """Its columns of text and of images, in batches as they come."""

    def __init__(self, schema: Any, notes: Notes) -> None:
        self._texts = TextColumns(schema, notes)
        self._pictures = PictureColumns(schema, notes)

    def add(self, batch: Any, row: int, *, decodable: bool = False) -> None:
        """Some rows of the table, the first of which is `row`. `decodable`: that all is UTF-8 is known."""
        self._texts.add(batch, row, decodable=decodable)
        self._pictures.add(batch, row)

    def done(self) -> None:
        self._texts.done()
        self._pictures.done()
