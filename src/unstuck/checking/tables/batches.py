"""Record batches of an arrow file: each is held against itself, counted, and what is wrong is noted."""

from __future__ import annotations

from typing import Any

from ...wording.printable import shortened
from ...wording.text import many
from ..noting import Notes
from .contents import Contents, columns_of
from .source import refusal, refusals

NOT_TEXT = "UTF8"  # how pyarrow says that text cannot be decoded, which concerns a row, not the batch


class Batches:
    """Those of one file, in their order."""

    def __init__(self, schema: Any, notes: Notes) -> None:
        self._notes = notes
        self._contents = Contents(schema, notes)
        self.count = 0
        self.row = 0  # at which the next one begins, as far as is known
        self.samples = 0  # that training gets
        notes.facts(columns=columns_of(schema))

    def add(self, batch: Any) -> str:
        """Gives what is wrong with it: then it is not counted."""
        wrong = [why for why in map(_contradiction, batch.schema, batch.columns) if why]
        worse = [why for why in wrong if NOT_TEXT not in why]
        if worse:
            return worse[0]
        self._contents.add(batch, self.row, decodable=not wrong)
        self.count += 1
        self.row += batch.num_rows
        self.samples += batch.num_rows
        return ""

    def bad(self, kind: str, why: str, at: int | None, rows: int | None, until: int | None = None) -> None:
        what = f"record batch {self.count:,}, from row {self.row:,} on: {why}"
        self._notes.fault(kind, what, at=at, until=until, row=self.row, lost=rows)
        self.count += 1
        self.row += rows or 0

    def done(self) -> None:
        self._contents.done()
        self._notes.facts(samples=self.samples, members=self.count)
        if not self.samples and not self._notes.faulty:
            self._notes.fault(
                "no-rows", f"the file is complete, and has {many(self.count, 'batch')} without a row", lost=0
            )


def _contradiction(field: Any, column: Any) -> str:
    """pyarrow takes a batch as it stands: lengths, offsets and indices that lead outside crash whoever uses them."""
    try:
        column.validate(full=True)
    except refusals() as error:
        return f"column {shortened(field.name)}: {refusal(error)}"
    return ""
