"""Files that say at their end what they hold, and have no such end: what stands there instead."""

from __future__ import annotations

from typing import IO

from ..noting import Notes

BEHIND = 1 << 16  # bytes in which the end is still looked for
LENGTH = 4  # bytes of the footer's length, in front of the magic at the very end


def last_bytes(raw: IO[bytes], notes: Notes, count: int) -> bytes:
    """Where the file is read on afterwards is left as it was."""
    before = raw.tell()
    raw.seek(max(notes.size - count, 0))
    data = b"".join(iter(lambda: raw.read(count), b""))
    raw.seek(before)
    return data


def without_end(raw: IO[bytes], notes: Notes, magic: bytes, lost: int | None = None) -> None:
    """Something stands behind the end, or zeros stand in its place, or the file ends before."""
    tail = last_bytes(raw, notes, BEHIND)
    start = notes.size - len(tail)
    end = tail.rfind(magic) + len(magic)
    length = int.from_bytes(tail[max(end - len(magic) - LENGTH, 0) : end - len(magic)], "little")
    zeros = len(tail) - len(tail.rstrip(b"\0"))
    cost = "no row can be read" if lost is None else f"{lost:,} rows and more cannot be read"
    if end > len(magic) + LENGTH and 0 < length < start + end - 2 * len(magic):
        what = f"{notes.size - start - end:,} bytes stand behind its end, where no reader finds the footer: {cost}"
        notes.fault("damaged", what, at=start + end, until=notes.size, lost=lost)
    elif zeros > len(magic) + LENGTH:
        more = "or more " if zeros == len(tail) < notes.size else ""
        what = f"its last {zeros:,} bytes {more}are zeros, where the footer should be: {cost}"
        notes.fault("zeros", what, at=notes.size - zeros, until=notes.size, lost=lost)
    else:
        what = f"it ends after {notes.size:,} bytes without a footer: {cost}"
        notes.fault("cut", what, at=notes.size, lost=lost)
