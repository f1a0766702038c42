"""Records of JSON lines: counted, judged, and their texts measured. Many at a time; one by one where one is bad."""

from __future__ import annotations

import io
import json
import re
from operator import attrgetter
from typing import Any

import msgspec

from ...evidence.data import Texts
from ...wording.printable import shortened
from ..noting import Notes
from .json_text import Wrong, breaks_off, hole, wrong
from .lines import Block

LARGE = 8 << 20  # a record above this is judged, and no objects are made of it: they would take 20 times its bytes
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
_plain = msgspec.json.Decoder()


class _Column:
    """A key whose values are texts, or may be."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.documents = self.nulls = self.blanks = self.characters = 0

    def add(self, values: list[Any]) -> None:
        texts = [one for one in values if one.__class__ is str]
        self.documents += len(texts)
        self.nulls += values.count(None) if len(texts) < len(values) else 0
        self.characters += sum(map(len, texts))
        self.blanks += texts.count("") + sum(map(str.isspace, texts))

    def told(self) -> Texts:
        return Texts(shortened(self.key), self.documents, self.nulls, self.blanks, self.characters)


class Records:
    """What was seen so far."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self.samples = 0
        self._line = 0
        self._columns: list[_Column] = []
        self._known = False  # what the first record is like
        self._objects = True
        self._shape: msgspec.json.Decoder[Any] = _plain

    def take(self, block: Block) -> None:
        data, at = block.data, block.at
        if not at and data.startswith(BOM):
            data, at = data[len(BOM) :], len(BOM)
        while not self._known and data:
            end = data.find(b"\n") + 1 or len(data)
            self._one_by_one(data[:end], at)
            data, at = data[end:], at + end
        if data and (len(data) > LARGE or not self._together(data)):
            self._one_by_one(data, at)

    def pass_line(self) -> int:
        """A line that is judged elsewhere; its number."""
        self._line += 1
        return self._line

    def finish(self) -> None:
        if not self.samples and not self._notes.faulty:
            self._notes.fault("no-rows", f"there is no record in its {self._line:,} lines")
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
        found = wrong(line)
        if found is not None:
            self._note(line, at, found)
            return
        record = _record(line) if len(line) <= LARGE else None
        if not self._known and len(line) <= LARGE:
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

    def _note(self, line: bytes, at: int, found: Wrong) -> None:
        zeros, number = hole(line), self._line
        if zeros is not None:
            what = f"{zeros.until - zeros.at:,} zero bytes stand in line {number:,}, where JSON should"
            self._notes.fault("zeros", what, at=at + zeros.at, until=at + zeros.until, row=number, lost=1)
        elif not line.endswith(b"\n") and breaks_off(found, line):
            if self._notes.broken:  # it breaks off because its compression does
                return
            what = f"line {number:,}, the last, breaks off after {len(line):,} bytes: {found.what}"
            self._notes.fault("cut", what, at=at + len(line), row=number, lost=1)
        else:
            what = f"line {number:,} is no JSON at its byte {found.at:,}: {found.what}"
            self._notes.fault("undecodable", what, at=at + found.at, row=number, lost=1)


def _record(line: bytes) -> Any:
    try:
        return _plain.decode(line)
    except msgspec.DecodeError:  # what only Python's json reads
        return json.loads(line)
