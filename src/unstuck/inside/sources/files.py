"""Files of data that this process has opened: how often, what they hold, and which of their parts were read before.

And how many texts of an Arrow table are blank, from a few rows and without making a Python object of any of them.
"""

from __future__ import annotations

import os
from types import FrameType
from typing import Any

from ..core.frames import OWN_NAMES, variables
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import H_ROLE, ROLE_MAIN, Kind

NOTED = 500, 24  # files, in a main process and in any other: a worker has little room for notes and names
KNOWN = 4096  # files of which it is known how often they were opened
PARTS = 65_536  # row groups that are remembered as read
LISTED = 16  # files that are looked for in a list of the caller's
LONGEST_LIST = 100_000  # names in such a list
UP = 6  # calls up the stack that may have it

LOOKED = 32  # rows of one table
NAMES = ("text", "content", "document", "body", "sentence")  # where there are several columns of text
TYPES: dict[str, tuple[Any, int]] = {
    "string": ("i", 4),
    "large_string": ("q", 8),
}  # of the offsets in Arrow's own layout
LONGEST_BLANK = 256  # bytes: a text of more that begins with so much white space is taken for one all the same


class DataFiles:
    """Those of the process's recording."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.opened: dict[str, int] = {}
        self.parts: set[tuple[str, int]] = set()

    def begins_recording(self, recorder: Recorder) -> None:
        self.recorder, self.opened, self.parts = recorder, {}, set()

    def opens(self, path: str, facts: tuple[int, int, int], frame: FrameType | None) -> bool:
        """`facts`: row groups, rows and bytes, each plus one. True if it is the first time."""
        recorder = process.recorder
        if recorder is None:
            return False
        if recorder is not self.recorder:
            self.begins_recording(recorder)
        times = self.opened.get(path, 0) + 1
        if times > 1 or len(self.opened) < KNOWN:
            self.opened[path] = times
        noted = NOTED[recorder.words[H_ROLE] != ROLE_MAIN]
        if times == 1 and len(self.opened) <= noted:
            place = _listed(path, frame) if len(self.opened) <= LISTED else ""
            recorder.note(Kind.DATA_FILE, recorder.intern(path + place), clock(), times, *facts)
        elif times in (10, 1_000, 100_000):  # with the time of the recording's beginning: it is no sign of life
            recorder.note(Kind.DATA_FILE, recorder.intern(path), 0, times, *facts)
        return times == 1

    def reads(self, path: str, part: int) -> bool:
        """True if this row group was never read before, as far as that is known."""
        if (path, part) in self.parts:
            return False
        if len(self.parts) < PARTS:
            self.parts.add((path, part))
        return True


def _listed(path: str, frame: FrameType | None) -> str:
    """Which of how many it is, if a list of names in a call around holds it."""
    for _ in range(UP):
        if frame is None:
            return ""
        if frame.f_code.co_flags & OWN_NAMES:
            for one in [one for one in variables(frame).values() if type(one) is list]:
                if len(one) <= LONGEST_LIST and all(type(each) is str for each in one[:2]):
                    at = next((number for number, each in enumerate(one, 1) if _same(each, path)), 0)
                    if at:
                        return f"\n{at}\n{len(one)}"
        frame = frame.f_back
    return ""


def _same(name: object, path: str) -> bool:
    return type(name) is str and (name == path or (path.endswith(name) and os.path.abspath(name) == path))


def blanks(table: Any) -> tuple[int, int]:
    """Rows looked at, and those without any text: empty, null, or white space only."""
    schema = table.schema
    columns = [at for at, kind in enumerate(schema.types) if str(kind) in TYPES]
    if not columns or not table.num_rows:
        return 0, 0
    named = [at for name in NAMES for at in columns if schema.names[at] == name][:1]
    found = [_of_column(table.column(at)) for at in named or columns]
    looked = max(one[0] for one in found)
    return looked, min(one[1] for one in found)


def _of_column(column: Any) -> tuple[int, int]:
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    step = max(sum(len(one) for one in chunks) // LOOKED, 1)
    looked = blank = 0
    for chunk in chunks:
        rows, empty = _of_chunk(chunk, step)
        looked += rows
        blank += empty
    return looked, blank


def _of_chunk(chunk: Any, step: int) -> tuple[int, int]:
    """A null has no length, as an empty text has none."""
    code, width = TYPES[str(chunk.type)]
    _, offsets, data = chunk.buffers()
    if offsets is None:
        return 0, 0
    first = chunk.offset
    bounds = memoryview(offsets).cast("B")[first * width : (first + len(chunk) + 1) * width].cast(code)
    text = memoryview(data).cast("B") if data is not None else memoryview(b"")
    rows = range(0, len(chunk), step)
    return len(rows), sum(_is_blank(text, bounds[row], bounds[row + 1]) for row in rows)


def _is_blank(text: memoryview, begin: int, end: int) -> bool:
    return begin == end or (end - begin <= LONGEST_BLANK and not bytes(text[begin:end]).strip())


files = DataFiles()
