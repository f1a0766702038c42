"""What pyarrow reads tables from: a file of this machine, mapped and read ahead of it, or one that fsspec opened.

With it, what pyarrow says where it refuses, and what stands at the end of a file that should have a footer there.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import IO, Any

from ...wording.printable import shortened
from ..notes import Notes

PIECE = 1 << 20
LONGEST = 240  # characters of what a library says
BOMB = 250  # times the size of the file, in memory
NOT_GIVEN = re.compile(r"alloc of size (\d+) failed")
NOBODY = 1 << 40  # bytes: who asks for more does not want them, but has a wrong number
BEHIND = 1 << 16  # bytes in which the end is still looked for
LENGTH = 4  # bytes of the footer's length, in front of the magic at the very end


def open_source(raw: IO[bytes]) -> Any:
    """Mapped: a size that lies cannot make pyarrow ask for memory, and nothing is copied."""
    import pyarrow as pa

    if not isinstance(raw, io.FileIO):
        return pa.PythonFile(raw, mode="r")
    path = f"/proc/self/fd/{raw.fileno()}"  # whatever bytes its name has
    try:
        return pa.memory_map(path)
    except OSError:  # some file systems cannot map
        return pa.OSFile(path)


def is_here(source: Any) -> bool:
    """On this machine."""
    import pyarrow as pa

    return not isinstance(source, pa.PythonFile)


def one_thread() -> Any:
    """How batches are read: others read other files beside us."""
    import pyarrow as pa

    return pa.ipc.IpcReadOptions(use_threads=False)


class ReadAhead:
    """Has a file read from first to last, a little ahead of pyarrow, which finds in memory what it maps.

    So storage is asked in order, what it refuses is an error and no SIGBUS, and the time it takes is known. Nothing is
    copied: of a file in memory 38 GB/s, where reading gives 14. What lies elsewhere, pyarrow fetches itself.
    """

    def __init__(self, raw: IO[bytes], notes: Notes, nowhere: int) -> None:
        self._notes, self._nowhere = notes, nowhere
        self._file = raw.fileno() if isinstance(raw, io.FileIO) else None

    def to(self, place: float) -> None:
        """To this byte of it, or about there."""
        goal = min(int(place), self._notes.size)
        while self._notes.read < goal:
            wanted = min(goal - self._notes.read, PIECE)
            got = self._fetched(self._file, wanted) if self._file is not None else wanted
            if not got:
                break
            self._notes.moved(got)

    def _fetched(self, file: int, count: int) -> int:
        began = perf_counter()
        try:
            return os.sendfile(self._nowhere, file, self._notes.read, count)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS):
                raise
            return len(os.pread(file, count, self._notes.read))  # a file system that cannot do it
        finally:
            self._notes.reading += perf_counter() - began


@contextmanager
def reading_ahead(raw: IO[bytes], notes: Notes) -> Iterator[ReadAhead]:
    with open(os.devnull, "wb", buffering=0) as nowhere:
        yield ReadAhead(raw, notes, nowhere.fileno())


def refusals() -> tuple[type[Exception], ...]:
    """What pyarrow raises about data. Of its input too, which `refusal` tells apart."""
    import pyarrow as pa

    return (pa.ArrowException, OSError, MemoryError, ValueError, LookupError, TypeError, OverflowError)


def refusal(error: Exception) -> str:
    """What pyarrow says about the data, in one line. What the system says about the file is raised again."""
    if isinstance(error, OSError) and (error.errno is not None or type(error) is not OSError):
        raise error
    asked = memory_of(error)
    if asked:
        return f"it asks for {asked:,} bytes of memory"
    words = " ".join(str(error).split()) or type(error).__name__
    return shortened(words if len(words) <= LONGEST else f"{words[:LONGEST]}…")


def memory_of(error: Exception) -> int | None:
    """How much memory was asked for and not given, if that is why: 0 where it does not say."""
    number = NOT_GIVEN.search(str(error))
    if number is not None:
        return int(number[1])
    return 0 if isinstance(error, MemoryError) else None


def kind_of(error: Exception, notes: Notes) -> str:
    """What such a refusal says about a file: damaged, or hostile where it asks for memory that no honest file needs.

    What an honest file may ask for is a MemoryError: rows that are larger than a reader may be.
    """
    asked = memory_of(error)
    if asked is None or asked >= NOBODY:
        return "damaged"
    if asked <= notes.size * BOMB:
        raise MemoryError from error
    return "hostile"


def too_large(notes: Notes) -> None:
    notes.facts(unread="it has rows that take more memory than a reader may have")


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
        what = f"{notes.size - start - end:,} bytes follow its end, so no reader finds the footer: {cost}"
        notes.fault("damaged", what, at=start + end, until=notes.size, lost=lost)
    elif zeros > len(magic) + LENGTH:
        more = "or more " if zeros == len(tail) < notes.size else ""
        what = f"its last {zeros:,} bytes {more}are zeros, where the footer should be: {cost}"
        notes.fault("zeros", what, at=notes.size - zeros, until=notes.size, lost=lost)
    else:
        what = f"it ends after {notes.size:,} bytes without a footer: {cost}"
        notes.fault("cut", what, at=notes.size, lost=lost)
