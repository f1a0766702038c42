"""JSON: one document, or lines with one record in each.

What Python's json and msgspec take for JSON is JSON. Lines are judged and their texts measured many at a time, and one
by one where one is bad. What is too long to be held is only looked at for holes and for brackets that stay open.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from operator import attrgetter
from typing import IO, Any, NamedTuple

import msgspec

from ...evidence.data import Texts
from ...wording.printable import shortened
from ..files import HEAD, Stream
from ..notes import Notes
from . import Format, first_fault, is_packed

DOCUMENT_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*(?:[\"{\]]|\[\s*[\"{\[\d-]))")
LONGEST_DOCUMENT = 64 << 20
PIECE = 1 << 20
TAIL = 1 << 20  # bytes at a file's end in which the last line is looked for
BLOCK = 1 << 18
LONGEST_LINE = 64 << 20  # bytes of a line that are held: the longest documents of web corpora have some 10 MiB
LARGE_RECORD = 8 << 20  # a larger one is judged, and no objects are made of it: they would take 20 times its bytes
COLUMNS = 1000  # of the first record that are told; a hostile one has millions of keys
TEXTS = 64  # columns of text that are measured
ODD = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')  # in a name, msgspec takes none of these
BOM = b"\xef\xbb\xbf"
KINDS = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}
# What Python's json writes and reads and msgspec does not, with words that mean as much: it is no fault of a file.
LENIENT = {b"NaN": b"null", b"-Infinity": b"null", b"Infinity": b"null", b"\\ud": b"\\u0", b"\\uD": b"\\u0"}
WIDE = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")  # marks of encodings, which it knows, too
TOKEN = 12
ZEROS = 16  # NULs in a row are a hole in the file; fewer may be a writer's slip
PLACE = re.compile(r" \(byte (\d+)\)$")
INSIDE = rb'[^"\\]*(?:\\.[^"\\]*)*"'
END = re.compile(INSIDE, re.DOTALL)
STRING = re.compile(b'"' + INSIDE, re.DOTALL)
_skim = msgspec.json.Decoder(msgspec.Raw)  # looks at every byte and makes no objects: no document becomes a bomb
_plain = msgspec.json.Decoder()


def _claims_document(head: bytes) -> bool:
    return DOCUMENT_START.match(head) is not None and _begins(head)


def _read_document(stream: Stream, notes: Notes) -> None:
    data, buffer = [], memoryview(bytearray(PIECE))
    for _ in range(LONGEST_DOCUMENT // PIECE):
        got = stream.readinto(buffer)
        data.append(bytes(buffer[:got]))
        if got < PIECE:
            _note_document(b"".join(data), notes)
            return
    _skim_document(b"".join(data), stream, notes)


def _skim_document(start: bytes, stream: Stream, notes: Notes) -> None:
    """A document that is too long to be held, of which `start` was read."""
    brackets, buffer, at = _Brackets(), memoryview(bytearray(PIECE)), len(start)
    brackets.add(start)
    while got := stream.readinto(buffer):
        brackets.add(bytes(buffer[:got]))
        at += got
    if brackets.wrong():
        notes.fault("cut", f"the document of {at:,} bytes is not whole: {brackets.wrong()}", at=at, lost=1)


def _note_document(data: bytes, notes: Notes) -> None:
    found, zeros = _wrong(data), hole(data)
    if found is None:
        return
    if zeros is not None:
        what = f"{zeros.until - zeros.at:,} zero bytes where JSON should be"
        notes.fault("zeros", what, at=zeros.at, until=zeros.until, lost=1)
    elif notes.broken:
        return
    elif _breaks_off(found, data):
        notes.fault("cut", f"the document is truncated after {len(data):,} bytes: {found.what}", at=len(data), lost=1)
    else:
        notes.fault(
            "undecodable", f"the document is not valid JSON at byte {found.at:,}: {found.what}", at=found.at, lost=1
        )


def _decoded_document(data: bytes | memoryview) -> str:
    if not len(data):
        return "no bytes where JSON should be"
    if is_packed(data):
        return first_fault(_read_document, data)
    found = _wrong(bytes(data))
    return "" if found is None else f"invalid JSON at its byte {found.at:,}: {found.what}"


def _claims_lines(head: bytes) -> bool:
    """Lines that are an object or an array each. A document, in a single line or printed prettily, is none of ours."""
    lines = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n")
    if len(lines) == 1:
        return len(head) >= HEAD and lines[0].startswith(b"{") and _begins(lines[0])
    ended = [line for line in lines[:-1] if line.strip()]
    good = sum(line.lstrip().startswith((b"{", b"[")) and _wrong(line) is None for line in ended)
    alone = len(ended) == 1 and not lines[-1].strip() and len(head) < HEAD
    return not alone and good > 0 and (_wrong(ended[0]) is None or 2 * good >= len(ended))


def _read_lines(stream: Stream, notes: Notes) -> None:
    records, long = _Records(notes), _LongLine()
    for block in _blocks(stream):
        if block.goes_on or long.parts:
            long.add(block)
        else:
            records.take(block)
        if long.parts and not block.goes_on:
            _note_long_line(long, records, notes)
            long = _LongLine()
    records.finish()


def _note_long_line(long: _LongLine, records: _Records, notes: Notes) -> None:
    """It may be a document that stands in a single line, as annotations of images do: those have hundreds of MiB."""
    line, length = records.pass_line(), long.until - long.at
    if long.hole is not None:
        at, until = long.hole
        what = f"{until - at:,} zero bytes in line {line:,}, where JSON should be"
        notes.fault("zeros", what, at=at, until=until, row=line, lost=1)
    elif long.brackets.wrong():
        what = f"line {line:,} of {length:,} bytes is not whole: {long.brackets.wrong()}"
        notes.fault("cut", what, at=long.until, row=line, lost=1)
    else:
        records.samples += 1


class _LongLine:
    """A line that is too long to be held, as it comes."""

    def __init__(self) -> None:
        self.at = self.until = self.parts = 0
        self.hole: tuple[int, int] | None = None
        self.brackets = _Brackets()

    def add(self, block: _Block) -> None:
        self.at = self.at if self.parts else block.at
        self.parts += 1
        self.until = block.at + len(block.data)
        self._find_hole(block)
        if self.hole is None:
            self.brackets.add(block.data)

    def _find_hole(self, block: _Block) -> None:
        if self.hole is None:
            found = hole(block.data)
            self.hole = (block.at + found.at, block.at + found.until) if found is not None else None
        elif self.hole[1] == block.at:
            self.hole = (self.hole[0], self.until - len(block.data.lstrip(b"\0")))


def _glance_at_lines(raw: IO[bytes], notes: Notes) -> None:
    """Its last line, if it is short enough to be found."""
    at = max(0, notes.size - TAIL)
    raw.seek(at)
    data = raw.read(TAIL)
    notes.moved(len(data))
    start = data.rstrip(b"\r\n").rfind(b"\n") + 1
    if at and not start:
        return
    found, zeros = _wrong(data[start:]), hole(data)
    if zeros is not None:
        what = f"{zeros.until - zeros.at:,} zero bytes near its end, where JSON should be"
        notes.fault("zeros", what, at=at + zeros.at, until=at + zeros.until)
    elif found is not None:
        what = f"the last line, {len(data) - start:,} bytes from byte {at + start:,}, is not valid JSON: {found.what}"
        notes.fault("undecodable" if data.endswith(b"\n") else "cut", what, at=at + start + found.at, lost=1)


def _decoded_lines(data: bytes | memoryview) -> str:
    return first_fault(_read_lines, data)


JSON = Format("json", (".json",), _claims_document, _read_document, decoded=_decoded_document, order=1)
JSONL = Format(
    "jsonl",
    (".jsonl", ".ndjson", ".jsonlines"),
    _claims_lines,
    _read_lines,
    glance=_glance_at_lines,
    decoded=_decoded_lines,
)


class _Block(NamedTuple):
    """Whole lines; of the last one of a file the end may be missing."""

    at: int
    data: bytes
    goes_on: bool = False  # it is a part of a line that is longer than LONGEST_LINE, and a further part follows


def _blocks(stream: Stream) -> Iterator[_Block]:
    held = _HeldLines()
    while held.fill(stream):
        while (block := held.next()) is not None:
            yield block
    if held.have or held.long:
        yield held.give(held.have)


class _HeldLines:
    """What was read and not given yet: the beginning of a line."""

    def __init__(self) -> None:
        self._buffer = bytearray(BLOCK)
        self._at = self._searched = self.have = 0
        self.long = False  # a part of this line was given

    def fill(self, stream: Stream) -> bool:
        if self.have == len(self._buffer):
            self._buffer += bytes(self.have)
        got = stream.readinto(memoryview(self._buffer)[self.have :])
        self.have += got
        return got > 0

    def next(self) -> _Block | None:
        search = self._buffer.find if self.long else self._buffer.rfind
        end = search(b"\n", self._searched, self.have) + 1
        if not end and (self.long or self.have >= LONGEST_LINE):
            self.long = True
            return self.give(self.have)._replace(goes_on=True) if self.have else None
        if not end:
            self._searched = self.have
            return None
        self.long = False
        return self.give(end)

    def give(self, end: int) -> _Block:
        block = _Block(self._at, bytes(memoryview(self._buffer)[:end]))
        rest = self._buffer[end : self.have]
        if len(self._buffer) > BLOCK > len(rest):
            self._buffer = bytearray(BLOCK)
        self._buffer[: len(rest)] = rest
        self._at, self.have, self._searched = self._at + end, len(rest), 0
        return block


class _Records:
    """What was seen so far."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.samples = 0
        self._line = 0
        self._columns: list[_Column] = []
        self._known = False  # what the first record is like
        self._objects = True
        self._shape: msgspec.json.Decoder[Any] = _plain

    def take(self, block: _Block) -> None:
        data, at = block.data, block.at
        if not at and data.startswith(BOM):
            data, at = data[len(BOM) :], len(BOM)
        while not self._known and data:
            end = data.find(b"\n") + 1 or len(data)
            self._one_by_one(data[:end], at)
            data, at = data[end:], at + end
        if data and (len(data) > LARGE_RECORD or not self._together(data)):
            self._one_by_one(data, at)

    def pass_line(self) -> int:
        """A line that is judged elsewhere; its number."""
        self._line += 1
        return self._line

    def finish(self) -> None:
        if not self.samples and not self._notes.faulty:
            self._notes.fault("no-rows", f"its {self._line:,} lines hold no record")
        self._notes.facts(samples=self.samples)
        for column in self._columns:
            if column.documents and self._line > 1:  # a single line may be a document of any kind
                self._notes.text(column.told())

    def _together(self, data: bytes) -> bool:
        """All of them at once, if nothing is wrong with any."""
        try:
            if not data.isascii():
                data.decode()
            rows = self._shape.decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        # One record in two lines, or two in one, are no error to msgspec; to whoever reads line by line they are.
        if len(rows) != lines and len(rows) != sum(map(bool, map(bytes.strip, data.split(b"\n")))):
            return False
        self._line += lines
        self.samples += len(rows)
        for number, column in enumerate(self._columns):
            column.add(list(map(attrgetter(f"f{number}"), rows)))
        return True

    def _one_by_one(self, data: bytes, at: int) -> None:
        for line in io.BytesIO(data):
            self._line += 1
            if line.strip():
                self._one(line, at)
            at += len(line)

    def _one(self, line: bytes, at: int) -> None:
        found = _wrong(line)
        if found is not None:
            self._note(line, at, found)
            return
        record = _record(line) if len(line) <= LARGE_RECORD else None
        if not self._known and len(line) <= LARGE_RECORD:
            self._learn(record)
        if record is not None and self._objects and not isinstance(record, dict):
            what = f"line {self._line:,} is {KINDS[type(record)]}, where the others are objects"
            self._notes.fault("undecodable", what, at=at, row=self._line, lost=1)
            return
        self.samples += 1
        if isinstance(record, dict):
            for column in self._columns:
                column.add([record.get(column.key)])

    def _learn(self, record: Any) -> None:
        """What the records are like, by the first."""
        self._known, self._objects = True, isinstance(record, dict)
        if not isinstance(record, dict):
            return
        kinds = {shortened(key): KINDS[type(value)] for key, value in list(record.items())[:COLUMNS]}
        self._notes.facts(columns=kinds)
        texts = [key for key, value in record.items() if isinstance(value, str | None) and not ODD.search(key)][:TEXTS]
        self._columns = [_Column(key) for key in texts]
        names = {f"f{number}": key for number, key in enumerate(texts)}
        shape = msgspec.defstruct("Record", [(name, Any, None) for name in names], rename=names, gc=False)
        self._shape = msgspec.json.Decoder(shape)

    def _note(self, line: bytes, at: int, found: _Wrong) -> None:
        zeros, number = hole(line), self._line
        if zeros is not None:
            what = f"{zeros.until - zeros.at:,} zero bytes in line {number:,}, where JSON should be"
            self._notes.fault("zeros", what, at=at + zeros.at, until=at + zeros.until, row=number, lost=1)
        elif not line.endswith(b"\n") and _breaks_off(found, line):
            if self._notes.broken:  # it breaks off because its compression does
                return
            what = f"line {number:,}, the last, is truncated after {len(line):,} bytes: {found.what}"
            self._notes.fault("cut", what, at=at + len(line), row=number, lost=1)
        else:
            what = f"line {number:,} is not valid JSON at its byte {found.at:,}: {found.what}"
            self._notes.fault("undecodable", what, at=at + found.at, row=number, lost=1)


class _Column:
    """A key whose values are texts, or may be."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.documents = self.nulls = self.blanks = self.characters = 0

    def add(self, values: list[Any]) -> None:
        texts = [value for value in values if value.__class__ is str]
        self.documents += len(texts)
        self.nulls += values.count(None) if len(texts) < len(values) else 0
        self.characters += sum(map(len, texts))
        self.blanks += texts.count("") + sum(map(str.isspace, texts))

    def told(self) -> Texts:
        return Texts(shortened(self.key), self.documents, self.nulls, self.blanks, self.characters)


def _record(line: bytes) -> Any:
    try:
        return _plain.decode(line)
    except msgspec.DecodeError:  # what only Python's json reads
        return json.loads(line)


class _Wrong(NamedTuple):
    """What is wrong with it, and the offset in it."""

    what: str
    at: int


def _wrong(data: bytes) -> _Wrong | None:
    """Nothing, if it is one JSON document in UTF-8, or what Python's json takes for one."""
    try:
        if not data.isascii():
            data.decode()
        _skim.decode(data)
    except UnicodeDecodeError as error:
        found = _Wrong(f"no UTF-8: {error.reason}", error.start)
    except RecursionError:
        return _Wrong("it is nested deeper than its readers go", 0)
    except msgspec.DecodeError as error:
        found = _place(str(error), len(data))
    else:
        return None
    lenient = data.startswith(WIDE) or any(mark in data for mark in LENIENT)
    return None if lenient and _taken(data) else found


def _begins(head: bytes) -> bool:
    """Whether it is JSON, as far as it goes."""
    found = _wrong(head)
    return found is None or _breaks_off(found, head)


def _breaks_off(found: _Wrong, data: bytes) -> bool:
    """Whether only its end is missing: where it was cut within a word or a character, it is wrong before its end."""
    return found.at + TOKEN >= len(data)


class Hole(NamedTuple):
    """Zeros where something else has been."""

    at: int
    until: int


def hole(data: bytes) -> Hole | None:
    at = data.find(bytes(ZEROS))
    return Hole(at, len(data) - len(data[at:].lstrip(b"\0"))) if at >= 0 else None


def _place(words: str, length: int) -> _Wrong:
    words = words.removeprefix("JSON is malformed: ")
    match = PLACE.search(words)
    return _Wrong(PLACE.sub("", words), int(match[1]) if match is not None else length)


def _taken(data: bytes) -> bool:
    """As Python's json would, which makes objects of all it reads: so what only it takes is put in other words."""
    if data.startswith(WIDE):
        data = data.decode(json.detect_encoding(data), "replace").encode("utf-8", "replace")
    for mark, other in LENIENT.items():
        data = data.replace(mark, other)
    try:
        _skim.decode(data.decode())
    except (ValueError, RecursionError):
        return False
    return True


class _Brackets:
    """Fed with one piece after the other."""

    def __init__(self) -> None:
        self._open = 0
        self._string = self._escaped = False

    def add(self, data: bytes) -> None:
        if self._escaped:
            data, self._escaped = data[1:], False
        if self._string:
            end = END.match(data) if b'"' in data else None
            self._string = end is None
            data = data[end.end() :] if end is not None else data
        body = data.rstrip(b"\\")
        if not self._string:
            # A further quote ends a string that is open, or stays: without it, hostile text is tried at every quote.
            bare = STRING.sub(b"", body + b'"')
            self._open += sum(map(bare.count, (b"{", b"["))) - sum(map(bare.count, (b"}", b"]")))
            self._string = not bare.endswith(b'"')
        self._escaped = self._string and (len(data) - len(body)) % 2 == 1

    def wrong(self) -> str:
        """What is, in a few words, or nothing."""
        if self._string:
            return "it ends within a string"
        return f"it ends with {self._open:,} brackets open" if self._open else ""
