"""Where data comes from before it is a batch: files that are read, documents, tokens."""

from __future__ import annotations

import msgspec

from .places import Place
from .timing import Timing


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """One function of a data library that a process calls, by the line that calls it."""

    kind: str  # rows (of a file), tokens, map
    name: str  # pyarrow.parquet, tokenizers, tiktoken, transformers, datasets.map …
    where: Place | None = None
    calls: Timing = Timing()
    items: int = 0  # rows read, documents handed in
    made: int = 0  # tokens
    looked: int = 0  # rows whose text was looked at
    blank: int = 0  # those of them without any
    groups: int = 0  # row groups read
    files: int = 0  # opened
    threads: int | None = None  # that it was told to use
    at: float = 0.0  # of the first call
    last: float = 0.0  # when the newest ended
    since: float | None = None  # of the call that goes on
    again: int = 0  # calls that brought nothing that had not been there before, at least
    later: float = 0.0  # seconds of its calls after the first optimizer step, as far back as the recording has them
    before: float | None = None  # when the last before that step ended; None: there was none, or it is not recorded


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of data that was opened."""

    path: str
    at: float
    groups: int | None = None  # row groups
    rows: int | None = None
    size: int | None = None
    opened: int = 1  # times, at least
    number: int = 0  # in the list of files that the user's code goes through; 0: not known
    listed: int = 0  # files in it
