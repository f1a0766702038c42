"""Arrow files: record batches one after the other, and at the end a footer that says where each of them is."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import IO, Any

from ...wording.text import many
from ..noting import Notes
from .batches import Batches
from .contents import columns_of
from .ends import last_bytes, without_end
from .messages import BATCH, batches_behind, blocks, message_at, messages, read_at
from .source import Ahead, is_here, kind_of, one_thread, refusal, refusals

MAGIC = b"ARROW1"
TAIL = len(MAGIC) + 4  # the footer's length, and the magic again
START = 8  # the magic, and two bytes that fill


def footer(raw: IO[bytes], source: Any, notes: Notes) -> Any:
    """pyarrow's view of the file, or None: then it is noted why."""
    import pyarrow as pa

    if not last_bytes(raw, notes, TAIL).endswith(MAGIC) or notes.size < START + TAIL:
        without_end(raw, notes, MAGIC, lost=_rows(source, notes))
        return None
    try:
        reader = pa.ipc.open_file(source, options=one_thread())
        columns_of(reader.schema)  # names are decoded only now
    except refusals() as error:
        what = f"the footer cannot be understood, so no row can be read: {refusal(error)}"
        notes.fault("damaged", what, at=notes.size - TAIL, until=notes.size, lost=_rows(source, notes))
        return None
    return reader


def told(reader: Any, notes: Notes) -> None:
    """What is known without reading the rows."""
    notes.facts(columns=columns_of(reader.schema), members=reader.num_record_batches)
    try:
        notes.facts(samples=reader.count_rows())
    except refusals() as error:
        notes.fault("damaged", f"its batches cannot be counted: {refusal(error)}")


class ArrowFile:
    """Its record batches, by the footer."""

    def __init__(self, source: Any, reader: Any, notes: Notes, ahead: Ahead) -> None:
        self._source, self._reader, self._notes, self._ahead = source, reader, notes, ahead
        self._count = reader.num_record_batches
        self._batches = Batches(reader.schema, notes)

    def read(self) -> None:
        for number in range(self._count):
            self._ahead.to(self._notes.size * (number + 1) / self._count)
            self._batch(number)
        self._ahead.to(self._notes.size)
        if is_here(self._source):
            self._unlisted()
        self._batches.done()

    def _batch(self, number: int) -> None:
        kind = "damaged"
        try:
            wrong = self._batches.add(self._reader.get_batch(number))
        except refusals() as error:
            wrong, kind = refusal(error), kind_of(error, self._notes)
        if wrong:
            at = self._places[number] if number < len(self._places) else None
            found = message_at(self._source, at, self._notes.size) if at is not None else None
            rows, end = (found.rows, found.end) if found is not None else (None, None)
            self._batches.bad(kind, wrong, at, rows, end)

    def _unlisted(self) -> None:
        """Batches that stand in the file, and that the footer does not name: readers never look at them."""
        walked = (one for one in messages(self._source, START, self._notes.size) if one.kind == BATCH)
        beyond = list(islice(walked, self._count, None))
        if beyond:
            lost = sum(one.rows for one in beyond)
            what = f"{many(len(beyond), 'batch')} with {lost:,} rows stand there that the footer does not name"
            self._notes.fault("damaged", f"{what}: no reader looks at them", at=beyond[0].at, lost=lost)

    @cached_property
    def _places(self) -> list[int]:
        """Where its batches stand, by the footer, which pyarrow has understood."""
        end = self._notes.size - TAIL
        length = int.from_bytes(read_at(self._source, end, 4), "little")
        return blocks(read_at(self._source, end - length, length))


def _rows(source: Any, notes: Notes) -> int | None:
    """That stand whole in the file, though nobody can get at them; of one that is here."""
    if not is_here(source):
        return None
    return sum(one.rows for one in batches_behind(source, START, notes.size)) or None
