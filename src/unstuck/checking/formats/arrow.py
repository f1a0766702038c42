"""Arrow files and streams; what `datasets` writes are streams.

A file is record batches one after the other, and at the end a footer that says where each of them is. A stream is
messages one after the other, and a mark at the end. A reader takes the end of the file for the end of the data, without
a word, and so it takes zeros between two messages.

pyarrow does not say where messages stand. That is needed where pyarrow gives up: to tell what is lost, and where to go
on. So messages are found here without decoding what they hold.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import IO, Any, NamedTuple

from ...wording.printable import shortened
from ...wording.text import many
from ..files import Stream
from ..notes import Notes
from . import Format
from .arrow_source import (
    ReadAhead,
    is_here,
    kind_of,
    last_bytes,
    one_thread,
    open_source,
    reading_ahead,
    refusal,
    refusals,
    too_large,
    without_end,
)
from .columns import Contents, columns_of

FILE, FEATHER = b"ARROW1", b"FEA1"
TAIL = len(FILE) + 4  # the footer's length, and the magic again
START = 8  # the magic, and two bytes that fill
MARK = b"\xff\xff\xff\xff"  # before the length of each message; writers before 2019 left it out
PREFIX = 8
ALIGNED = 8
PIECE = 1 << 20
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
LARGEST = 1 << 28  # bytes in which a message says what it is: more is a lie
MOST = 1 << 40  # bytes, or rows, of one message: more, too
AHEAD = 4 << 20  # bytes of a stream
END = MARK + bytes(4)
NOT_TEXT = "UTF8"  # how pyarrow says that text cannot be decoded, which concerns a row, not the batch


def claims(head: bytes) -> bool:
    return head.startswith(FILE) or _begins_stream(head)


def glance(raw: IO[bytes], notes: Notes) -> None:
    """The end of a file; of a stream, where its messages stand."""
    raw.seek(0)
    is_file, source = raw.read(len(FILE)) == FILE, open_source(raw)
    if not is_file:
        _glance_at_stream(source, notes)
        return
    reader = _footer(raw, source, notes)
    if reader is not None:
        _note_footer(reader, notes)


def read(stream: Stream, notes: Notes) -> None:
    if stream.head.startswith(FEATHER):
        notes.facts(unread="feather version 1, which is no arrow file")
        return
    with reading_ahead(stream.raw, notes) as ahead:
        try:
            _read(stream, open_source(stream.raw), notes, ahead)
        except MemoryError:
            too_large(notes)


def _read(stream: Stream, source: Any, notes: Notes, ahead: ReadAhead) -> None:
    if not stream.head.startswith(FILE):
        _read_stream(source, notes, ahead)
    elif (reader := _footer(stream.raw, source, notes)) is not None:
        _ArrowFile(source, reader, notes, ahead).read()


ARROW = Format("arrow", (".arrow", ".arrows", ".feather", ".ipc"), claims, read, glance, seeks=True, library="pyarrow")


def _footer(raw: IO[bytes], source: Any, notes: Notes) -> Any:
    """pyarrow's view of the file, or None: then it is noted why."""
    import pyarrow as pa

    if not last_bytes(raw, notes, TAIL).endswith(FILE) or notes.size < START + TAIL:
        without_end(raw, notes, FILE, lost=_whole_rows(source, notes))
        return None
    try:
        reader = pa.ipc.open_file(source, options=one_thread())
        columns_of(reader.schema)  # names are decoded only now
    except refusals() as error:
        what = f"the footer is corrupt, so no row can be read: {refusal(error)}"
        notes.fault("damaged", what, at=notes.size - TAIL, until=notes.size, lost=_whole_rows(source, notes))
        return None
    return reader


def _note_footer(reader: Any, notes: Notes) -> None:
    """What is known without reading the rows."""
    notes.facts(columns=columns_of(reader.schema), members=reader.num_record_batches)
    try:
        notes.facts(samples=reader.count_rows())
    except refusals() as error:
        notes.fault("damaged", f"its batches cannot be counted: {refusal(error)}")


class _ArrowFile:
    """Its record batches, by the footer."""

    def __init__(self, source: Any, reader: Any, notes: Notes, ahead: ReadAhead) -> None:
        self._source, self._reader, self._notes, self._ahead = source, reader, notes, ahead
        self._count = reader.num_record_batches
        self._batches = _Batches(reader.schema, notes)

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
            found = _message_at(self._source, at, self._notes.size) if at is not None else None
            rows, end = (found.rows, found.end) if found is not None else (None, None)
            self._batches.bad(kind, wrong, at, rows, end)

    def _unlisted(self) -> None:
        """Batches that stand in the file, and that the footer does not name: readers never look at them."""
        walked = (message for message in messages(self._source, START, self._notes.size) if message.kind == BATCH)
        beyond = list(islice(walked, self._count, None))
        if beyond:
            lost = sum(message.rows for message in beyond)
            what = f"{many(len(beyond), 'batch')} with {lost:,} rows are not listed in the footer"
            self._notes.fault("damaged", f"{what}: no reader sees them", at=beyond[0].at, lost=lost)

    @cached_property
    def _places(self) -> list[int]:
        """Where its batches stand, by the footer, which pyarrow has understood."""
        end = self._notes.size - TAIL
        length = int.from_bytes(_read_at(self._source, end, 4), "little")
        return _batch_places(_read_at(self._source, end - length, length))


def _whole_rows(source: Any, notes: Notes) -> int | None:
    """That stand whole in the file, though nobody can get at them; of one that is here."""
    if not is_here(source):
        return None
    return sum(message.rows for message in _batches_behind(source, START, notes.size)) or None


def _read_stream(source: Any, notes: Notes, ahead: ReadAhead) -> None:
    import pyarrow as pa

    ahead.to(AHEAD)
    source.seek(0)
    try:
        reader = pa.ipc.open_stream(source, options=one_thread())
        columns_of(reader.schema)  # names are decoded only now
    except refusals() as error:
        _no_schema(source, notes, refusal(error))
        return
    stream = _ArrowStream(source, reader, notes, ahead)
    while stream.batch():
        pass
    ahead.to(notes.size)
    stream.batches.done()


def _glance_at_stream(source: Any, notes: Notes) -> None:
    """From message to message, without what they hold. A file elsewhere would have to be fetched for that."""
    if not is_here(source):
        return
    found = list(messages(source, 0, notes.size))
    batches = [message for message in found if message.kind == BATCH]
    end = found[-1].end if found else 0
    notes.facts(samples=sum(message.rows for message in batches), members=len(batches))
    broken = _message_at(source, end, notes.size)
    if end == notes.size or broken is not None:
        what = f"it ends after {notes.size:,} bytes and {many(len(batches), 'batch')}, without an end mark"
        notes.fault("cut", what, at=notes.size)


def _no_schema(source: Any, notes: Notes, why: str) -> None:
    found = _message_at(source, 0, notes.size)
    if found is not None and found.end > notes.size:
        notes.fault("cut", f"it ends after {notes.size:,} bytes, within its schema: no row can be read", at=notes.size)
        return
    lost = sum(message.rows for message in _batches_behind(source, 0, notes.size))
    notes.fault("damaged", f"its schema cannot be read, and no row without it: {why}", at=0, lost=lost or None)


class _ArrowStream:
    """Record batches as they come."""

    def __init__(self, source: Any, reader: Any, notes: Notes, ahead: ReadAhead) -> None:
        self._source, self._reader, self._notes, self._ahead = source, reader, notes, ahead
        self._reading = source  # what the reader reads
        self._at = self._first = source.tell()
        self.batches = _Batches(reader.schema, notes)

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
        broken = _message_at(self._source, at, self._notes.size)
        following = _next_message(self._source, at + 1, self._notes.size)
        if following is None and broken is not None:
            self._cut(broken)
            return False
        self.batches.bad(kind, why, at, None, following.at if following is not None else None)
        return self._go_on(following.at) if following is not None else False

    def _go_on(self, at: int) -> bool:
        """With a new reader: the old one may stay where it failed. It gets the schema and the dictionaries again."""
        import pyarrow as pa

        known = [(0, self._first)]
        known += [
            (message.at, message.end)
            for message in messages(self._source, self._first, at)
            if message.kind == DICTIONARY
        ]
        self._at = at
        self._reading = pa.PythonFile(_Spliced(self._source, [*known, (at, self._notes.size)]), mode="r")
        self._reader = pa.ipc.open_stream(self._reading, options=one_thread())
        return True

    def _cut(self, broken: Message) -> None:
        size, before = self._notes.size, many(self.batches.count, "batch")
        what = f"it ends at byte {size:,}, after {before}"
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
        mark = _read_at(self._source, at, len(END))
        behind = list(_batches_behind(self._source, at + 1, size))
        lost = sum(message.rows for message in behind)
        silence = f"{many(len(behind), 'batch')} with {lost:,} rows after it are silently skipped"
        if not mark:
            what = f"no end mark after {many(self.batches.count, 'batch')}"
            self._notes.fault("cut", f"{what}: if more followed, it is silently lost", at=size, row=self.batches.row)
        elif not mark.strip(b"\0") and size - at > len(END) and self._is_marked():
            rest = silence if behind else "what was there is silently skipped"
            what = f"zeros, which readers take for the end of the stream: {rest}"
            self._notes.fault("zeros", what, at=at, row=self.batches.row, lost=lost or None)
        elif behind:
            what = f"an end mark, where readers stop: {silence}"
            self._notes.fault("damaged", what, at=at, row=self.batches.row, lost=lost)

    def _is_marked(self) -> bool:
        """Its writer put a mark in front of each message: then it ends with one, too."""
        return _read_at(self._source, 0, len(MARK)) == MARK


class _Spliced:
    """So that a reader of streams can be started again behind what it cannot read: what it knew by then comes first."""

    closed = False

    def __init__(self, source: Any, stretches: list[tuple[int, int]]) -> None:
        self._source, self._left = source, stretches

    def read(self, count: int) -> bytes:
        found: list[bytes] = []
        while count and self._left:
            start, end = self._left[0]
            data = _read_at(self._source, start, min(count, end - start))
            found.append(data)
            count -= len(data)
            self._left[0] = start + len(data), end
            if len(self._left) > 1 and start + len(data) == end:
                self._left.pop(0)
            elif not data:
                break
        return b"".join(found)

    def tell(self) -> int:
        """Where that is in the file."""
        return self._left[0][0]


class _Batches:
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


class Message(NamedTuple):
    """One of them. Of a file that was cut its end may lie behind the end of the file."""

    at: int
    kind: int
    end: int
    rows: int


def _begins_stream(head: bytes) -> bool:
    """Whether the first message of an arrow stream stands there: its schema."""
    length = int.from_bytes(head[4:PREFIX], "little")
    if not head.startswith(MARK) or not 0 < length <= LARGEST:
        return False
    try:
        kind, body, _ = _described(head[PREFIX : PREFIX + length])
    except struct.error:
        return False
    return kind == SCHEMA and body == 0


def _message_at(source: Any, at: int, size: int) -> Message | None:
    """The message that begins there, if one does. Of one that is cut before it says what it is, the kind is 0."""
    prefix = _read_at(source, at, PREFIX)
    marked = prefix[:4] == MARK
    length = int.from_bytes(prefix[4:] if marked else prefix[:4], "little")
    start = at + (PREFIX if marked else PREFIX - len(MARK))
    if len(prefix) < PREFIX:
        return Message(at, 0, at + PREFIX, 0) if prefix else None
    if not 0 < length <= LARGEST:
        return None
    if start + length > size:
        return Message(at, 0, start + length, 0)
    try:
        kind, body, rows = _described(_read_at(source, start, length))
    except struct.error:
        return None
    known = kind in (SCHEMA, DICTIONARY, BATCH) and 0 <= body <= MOST and 0 <= rows <= MOST
    return Message(at, kind, start + length + body, rows) if known else None


def messages(source: Any, at: int, size: int) -> Iterator[Message]:
    """Whole ones, one after the other, as far as each leads to the next."""
    while (found := _message_at(source, at, size)) is not None and found.end <= size:
        yield found
        at = found.end


def _next_message(source: Any, at: int, size: int) -> Message | None:
    """The first one with data that stands whole at this place or behind it."""
    at = -(-at // ALIGNED) * ALIGNED
    while at < size:
        data = _read_at(source, at, PIECE)
        place = data.find(MARK)
        while place >= 0:
            found = _message_at(source, at + place, size) if place % ALIGNED == 0 else None
            if found is not None and found.end <= size and found.kind in (DICTIONARY, BATCH):
                return found
            place = data.find(MARK, place + 1)
        at += PIECE
    return None


def _batches_behind(source: Any, at: int, size: int) -> Iterator[Message]:
    """Record batches at this place or behind it, whatever stands between them."""
    found = _next_message(source, at, size)
    while found is not None:
        for found in messages(source, found.at, size):  # noqa: B020
            if found.kind == BATCH:
                yield found
        found = _next_message(source, found.end, size)


def _read_at(source: Any, at: int, count: int) -> bytes:
    source.seek(at)
    data: bytes = source.read(count)
    return data


def _batch_places(data: bytes) -> list[int]:
    """Where the record batches begin, by the footer of an arrow file."""
    try:
        place = _field(data, _unsigned(data, 0), 3)
        start = place + _unsigned(data, place)
        count = _unsigned(data, start) if place else 0
        return [struct.unpack_from("<q", data, start + 4 + 24 * number)[0] for number in range(count)]
    except struct.error:
        return []


def _described(data: bytes) -> tuple[int, int, int]:
    """The kind of a message, the bytes of its body, and its rows: a table of Flatbuffers, of which a few fields."""
    table = _unsigned(data, 0)
    (kind,) = struct.unpack_from("<B", data, _field(data, table, 1))
    (body,) = struct.unpack_from("<q", data, place) if (place := _field(data, table, 3)) else (0,)
    rows = 0
    if kind == BATCH:
        header = _field(data, table, 2)
        inner = header + _unsigned(data, header)
        (rows,) = struct.unpack_from("<q", data, place) if (place := _field(data, inner, 0)) else (0,)
    return kind, body, rows


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table stands; 0: it has its default."""
    (back,) = struct.unpack_from("<i", data, table)
    fields = table - back
    (size,) = struct.unpack_from("<H", data, fields)
    place = 4 + 2 * number
    if fields < 0 or place >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, fields + place)
    return table + offset if offset else 0


def _unsigned(data: bytes, at: int) -> int:
    return int(struct.unpack_from("<I", data, at)[0])
