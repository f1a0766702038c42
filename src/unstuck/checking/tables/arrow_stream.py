"""Arrow streams, which is what `datasets` writes: messages one after the other, and a mark at the end.

A reader takes the end of the file for the end of the data, without a word, and so it takes zeros between two messages.
"""

from __future__ import annotations

from typing import Any

from ...wording.text import many
from ..noting import Notes
from .batches import Batches
from .contents import columns_of
from .messages import BATCH, DICTIONARY, MARK, Message, batches_behind, message_at, messages, next_message, read_at
from .source import Ahead, is_here, kind_of, one_thread, refusal, refusals
from .spliced import Spliced

AHEAD = 4 << 20  # bytes
END = MARK + bytes(4)


def read_stream(source: Any, notes: Notes, ahead: Ahead) -> None:
    import pyarrow as pa

    ahead.to(AHEAD)
    source.seek(0)
    try:
        reader = pa.ipc.open_stream(source, options=one_thread())
        columns_of(reader.schema)  # names are decoded only now
    except refusals() as error:
        _no_schema(source, notes, refusal(error))
        return
    stream = _Stream(source, reader, notes, ahead)
    while stream.batch():
        pass
    ahead.to(notes.size)
    stream.batches.done()


def glance_at(source: Any, notes: Notes) -> None:
    """From message to message, without what they hold. A file elsewhere would have to be fetched for that."""
    if not is_here(source):
        return
    found = list(messages(source, 0, notes.size))
    batches = [one for one in found if one.kind == BATCH]
    end = found[-1].end if found else 0
    notes.facts(samples=sum(one.rows for one in batches), members=len(batches))
    broken = message_at(source, end, notes.size)
    if end == notes.size or broken is not None:
        what = f"it ends after {notes.size:,} bytes, behind {many(len(batches), 'batch')}, and nothing marks the end"
        notes.fault("cut", what, at=notes.size)


def _no_schema(source: Any, notes: Notes, why: str) -> None:
    found = message_at(source, 0, notes.size)
    if found is not None and found.end > notes.size:
        notes.fault("cut", f"it ends after {notes.size:,} bytes, within its schema: no row can be read", at=notes.size)
        return
    lost = sum(one.rows for one in batches_behind(source, 0, notes.size))
    notes.fault("damaged", f"its schema cannot be read, and no row without it: {why}", at=0, lost=lost or None)


class _Stream:
    """Record batches as they come."""

    def __init__(self, source: Any, reader: Any, notes: Notes, ahead: Ahead) -> None:
        self._source, self._reader, self._notes, self._ahead = source, reader, notes, ahead
        self._reading = source  # what the reader reads
        self._at = self._first = source.tell()
        self.batches = Batches(reader.schema, notes)

    def batch(self) -> bool:
        """One more, if there is one. Dictionaries in front of it are taken along."""
        self._ahead.to(self._at + AHEAD)
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            self._ended()
            return False
        except refusals() as error:
            return self._refused(kind_of(error, self._notes), refusal(error))
        end = self._reading.tell()
        self._ahead.to(end)
        wrong = self.batches.add(batch)
        if wrong:
            self.batches.bad("damaged", wrong, self._at, batch.num_rows, end)
        self._at = end
        return True

    def _refused(self, kind: str, why: str) -> bool:
        """Notes what cannot be read, and goes on behind it, though no reader in a training does."""
        at = self._at
        for found in messages(self._source, self._at, self._notes.size):
            at = found.end
            if found.kind == BATCH:
                self.batches.bad(kind, why, found.at, found.rows, found.end)
                return self._go_on(found.end)
        broken = message_at(self._source, at, self._notes.size)
        following = next_message(self._source, at + 1, self._notes.size)
        if following is None and broken is not None:
            self._cut(broken)
            return False
        self.batches.bad(kind, why, at, None, following.at if following is not None else None)
        return self._go_on(following.at) if following is not None else False

    def _go_on(self, at: int) -> bool:
        """With a new reader: the old one may stay where it failed. It gets the schema and the dictionaries again."""
        import pyarrow as pa

        known = [(0, self._first)]
        known += [(one.at, one.end) for one in messages(self._source, self._first, at) if one.kind == DICTIONARY]
        self._at = at
        self._reading = pa.PythonFile(Spliced(self._source, [*known, (at, self._notes.size)]), mode="r")
        self._reader = pa.ipc.open_stream(self._reading, options=one_thread())
        return True

    def _cut(self, broken: Message) -> None:
        size, before = self._notes.size, many(self.batches.count, "batch")
        what = f"it ends at byte {size:,}, behind {before}"
        if broken.kind == BATCH:
            what += f", within one of {broken.rows:,} rows that goes on to byte {broken.end:,}"
        elif broken.kind == 0:
            what += ", within the beginning of a further message"
        self._notes.fault("cut", what, at=size, row=self.batches.row, lost=broken.rows or None)

    def _ended(self) -> None:
        """Readers stop here. Whether the writer did, the mark says, and what stands behind it."""
        size, at = self._notes.size, self._at
        for found in messages(self._source, at, size):
            at = found.end
        mark = read_at(self._source, at, len(END))
        behind = list(batches_behind(self._source, at + 1, size))
        lost = sum(one.rows for one in behind)
        silence = f"{many(len(behind), 'batch')} with {lost:,} rows behind it are passed over in silence"
        if not mark:
            what = f"nothing marks the end of the stream, behind {many(self.batches.count, 'batch')}"
            self._notes.fault("cut", f"{what}: if more followed, no reader says so", at=size, row=self.batches.row)
        elif not mark.strip(b"\0") and size - at > len(END) and self._is_marked():
            rest = silence if behind else "what was there is passed over in silence"
            what = f"zeros, which readers take for the end of the stream: {rest}"
            self._notes.fault("zeros", what, at=at, row=self.batches.row, lost=lost or None)
        elif behind:
            what = f"an end mark, where readers stop: {silence}"
            self._notes.fault("damaged", what, at=at, row=self.batches.row, lost=lost)

    def _is_marked(self) -> bool:
        """Its writer put a mark in front of each message: then it ends with one, too."""
        return read_at(self._source, 0, len(MARK)) == MARK
