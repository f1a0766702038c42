"""Streams of files: which part of them each process goes through, and what went wrong with which."""

from __future__ import annotations

import msgspec

from .places import Place


class ShardError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shard that could not be opened or read, or a sample of it that could not be decoded."""

    path: str
    type: str
    message: str = ""
    at: float = 0.0
    stage: str = ""  # open, read, decode, map …
    handler: str = ""  # the function that decided what comes of it; empty: the exception was raised
    goes_on: bool = False  # it said: continue
    rest_lost: bool = False  # nothing more of this shard is read
    list_lost: bool = False  # nor of any other after it
    before: int = 0  # samples that it had given until then
    slept: float = 0.0  # seconds that the handler took
    key: str = ""  # of the sample
    gave: int | None = None  # samples that came of this shard in all; None: it was not left yet
    usual: int = 0  # the most samples that this process had had of a shard until then


class ShortShard(msgspec.Struct, frozen=True):
    """A file that was read to its end, as it seemed, and gave fewer samples than another."""

    path: str
    samples: int
    usual: int  # the most that another gave


class Shards(msgspec.Struct, frozen=True, omit_defaults=True):
    """One process's part of one list of files."""

    library: str  # webdataset, datasets, litdata, streaming
    name: str = ""  # of the list: a pattern, a folder, a dataset
    where: Place | None = None  # the user's line that made it
    total: int | None = None  # files in the list
    of_rank: int | None = None  # that are left for this rank
    mine: int | None = None  # that are left for this process; after a pass: that it went through
    ranks: int | None = None  # over which they were shared out; 1: they were not
    workers: int | None = None
    empty_check: bool = False  # a process that gets no sample at all is an error
    resampled: bool = False  # drawn with replacement: nobody goes without
    splitter: str = ""  # the function that shares them out over ranks; empty: none
    buffer: int = 0  # samples of its largest shuffle buffer
    steps: list[str] = []  # where its samples come from, and what is done with them: files, filter, shuffle …
    at: float = 0.0
    passes: int = 0  # that came to their end
    usual: int = 0  # the most samples that one of them gave which was read to its end
    opened: int = 0
    finished: int = 0  # gone through to their end
    samples: int = 0
    failed: int = 0
    now: str = ""  # the newest
    now_since: float = 0.0
    short: list[ShortShard] = []  # the shortest first
    errors: list[ShardError] = []  # the first, and the newest
