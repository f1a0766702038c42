"""JSON lines: one record in each line."""

from __future__ import annotations

from typing import IO

from ..alone import first_fault
from ..documents.balance import Balance
from ..documents.json_text import begins, hole, wrong
from ..documents.lines import Block, blocks
from ..documents.records import Records
from ..noting import Notes
from ..reading import HEAD, Stream

NAME = "jsonl"
ENDINGS = (".jsonl", ".ndjson", ".jsonlines")
TAIL = 1 << 20  # bytes at a file's end in which the last line is looked for


def claims(head: bytes) -> bool:
    """Lines that are an object or an array each. A document, in a single line or printed prettily, is none of ours."""
    lines = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n")
    if len(lines) == 1:
        return len(head) >= HEAD and lines[0].startswith(b"{") and begins(lines[0])
    ended = [line for line in lines[:-1] if line.strip()]
    good = sum(line.lstrip().startswith((b"{", b"[")) and wrong(line) is None for line in ended)
    alone = len(ended) == 1 and not lines[-1].strip() and len(head) < HEAD
    return not alone and good > 0 and (wrong(ended[0]) is None or 2 * good >= len(ended))


def read(stream: Stream, notes: Notes) -> None:
    records, long = Records(notes), _Long()
    for block in blocks(stream):
        if block.goes_on or long.parts:
            long.add(block)
        else:
            records.take(block)
        if long.parts and not block.goes_on:
            _note_long(long, records, notes)
            long = _Long()
    records.finish()


class _Long:
    """A line that is too long to be held, as it comes."""

    def __init__(self) -> None:
        self.at = self.until = self.parts = 0
        self.hole: tuple[int, int] | None = None
        self.balance = Balance()

    def add(self, block: Block) -> None:
        self.at = self.at if self.parts else block.at
        self.parts += 1
        self.until = block.at + len(block.data)
        self._find_hole(block)
        if self.hole is None:
            self.balance.add(block.data)

    def _find_hole(self, block: Block) -> None:
        if self.hole is None:
            found = hole(block.data)
            self.hole = (block.at + found.at, block.at + found.until) if found is not None else None
        elif self.hole[1] == block.at:
            self.hole = (self.hole[0], self.until - len(block.data.lstrip(b"\0")))


def _note_long(long: _Long, records: Records, notes: Notes) -> None:
    """It may be a document that stands in a single line, as annotations of images do: those have hundreds of MiB."""
    line, length = records.pass_line(), long.until - long.at
    if long.hole is not None:
        at, until = long.hole
        what = f"{until - at:,} zero bytes stand in line {line:,}, where JSON should"
        notes.fault("zeros", what, at=at, until=until, row=line, lost=1)
    elif long.balance.wrong():
        what = f"line {line:,} of {length:,} bytes is not whole: {long.balance.wrong()}"
        notes.fault("cut", what, at=long.until, row=line, lost=1)
    else:
        records.samples += 1


def glance(raw: IO[bytes], notes: Notes) -> None:
    """Its last line, if it is short enough to be found."""
    at = max(0, notes.size - TAIL)
    raw.seek(at)
    data = raw.read(TAIL)
    notes.moved(len(data))
    start = data.rstrip(b"\r\n").rfind(b"\n") + 1
    if at and not start:
        return
    found, zeros = wrong(data[start:]), hole(data)
    if zeros is not None:
        what = f"{zeros.until - zeros.at:,} zero bytes stand near its end, where JSON should"
        notes.fault("zeros", what, at=at + zeros.at, until=at + zeros.until)
    elif found is not None:
        what = f"the last line, {len(data) - start:,} bytes from byte {at + start:,}, is no JSON: {found.what}"
        notes.fault("undecodable" if data.endswith(b"\n") else "cut", what, at=at + start + found.at, lost=1)


def decoded(data: bytes | memoryview) -> str:
    return first_fault(read, data)
