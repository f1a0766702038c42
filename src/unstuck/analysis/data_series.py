"""Files of a numbered series compared: which are missing, which end early, and what their columns of text hold."""

from __future__ import annotations

import re
from statistics import median
from typing import NamedTuple

import msgspec

from ..evidence.data import Data, DataFile, Fault, Texts
from .case import Case, once
from .data_files import NUMBER, SHARDS, Bad, Series, all_series, plain

# Files that belong into a numbered series and are not there.
FEW = 0.1  # of the numbers: where more are missing, they were left out on purpose, or count something else
OF = re.compile(r"(\d+)-of-(\d+)(?=[.-])")  # part-00003-of-00128.parquet
MOST = 10_000  # names that are written out


class Gap(NamedTuple):
    """What a series lacks."""

    series: Series
    missing: list[str]


@once
def gaps(case: Case) -> list[Gap]:
    """The largest series first. A name that is there in another folder was moved to another split."""
    there = {plain(one.path) for one in case.data.files} if case.data is not None else set()
    found: list[Gap] = []
    for series in all_series(case) if case.data is not None and not case.data.stopped else ():
        if case.data is not None and any(one.format in SHARDS for one in series.files):
            names = _announced(series, case.data) if OF.search(series.files[0].path) else _between(series)
            folder = f"{series.folder}/" if series.folder or series.files[0].path.startswith("/") else ""
            missing = [f"{folder}{one}" for one in names if one not in there]
            found += [Gap(series, missing)] if missing else []
    return sorted(found, key=lambda one: -len(one.series.files))


def _announced(series: Series, data: Data) -> list[str]:
    """Their names say how many there are: those of a whole folder that was looked at, or nearly all."""
    found = {}
    for file in series.files:
        match = OF.search(plain(file.path))
        if match is not None:
            found[int(match[1])] = match
    totals = {int(match[2]) for match in found.values()}
    if len(totals) != 1 or not found:
        return []
    total, match = totals.pop(), next(iter(found.values()))
    lacking = total - len(found)
    if not 0 < lacking <= MOST or (lacking > FEW * total and not _whole(series.folder, data)):
        return []
    first = min(found) if total in found else 0  # some count from 1
    numbers = [one for one in range(first, first + total) if one not in found]
    return [_put(match.string, match.start(1), match[1], one) for one in numbers]


def _whole(folder: str, data: Data) -> bool:
    """The folder itself was asked for, or one above it."""
    asked = [one.rstrip("/") for one in data.asked.paths]
    return any(folder == one or folder.startswith(f"{one}/") for one in asked)


def _between(series: Series) -> list[str]:
    """Numbers between the first and the last."""
    index = counting(series)
    rows: dict[tuple[str, ...], dict[int, re.Match[str]]] = {}
    for file in series.files if index is not None else ():
        spots = list(NUMBER.finditer(plain(file.path)))
        own = spots.pop(index or 0)
        rows.setdefault(tuple(one[0] for one in spots), {})[int(own[0][:18])] = own
    return [name for row in rows.values() for name in _holes(row)]


def _holes(row: dict[int, re.Match[str]]) -> list[str]:
    first, last = min(row), max(row)
    lacking = last - first + 1 - len(row)
    if not 0 < lacking <= min(FEW * (last - first + 1), MOST):
        return []
    match = row[first]
    return [_put(match.string, match.start(), match[0], one) for one in range(first, last + 1) if one not in row]


def counting(series: Series) -> int | None:
    """Which of the numbers in a name counts its files: the last that is not always the same."""
    numbers = [NUMBER.findall(plain(one.path)) for one in series.files]
    width = len(numbers[0])
    if any(len(one) != width for one in numbers):  # parts of their names are made up by chance
        return None
    return next((i for i in reversed(range(width)) if len({one[i] for one in numbers}) > 1), None)


def following(path: str, index: int) -> str:
    """The name of the file with the next number."""
    match = list(NUMBER.finditer(plain(path)))[index]
    return _put(match.string, match.start(), match[0], int(match[0][:18]) + 1)


def _put(name: str, at: int, old: str, number: int) -> str:
    return f"{name[:at]}{number:0{len(old)}d}{name[at + len(old) :]}"


# Archives that end with far more zeros than their siblings: their last members were never written, or were lost.
SIBLINGS = 3
PADDING = 32 << 10  # bytes: three records of tar. One ends an archive, and some writers fill up one more
TIMES = 4  # what is usual in the series: programs that pad to larger blocks do so in all of them


@once
def long_tails(case: Case) -> list[Bad]:
    """As faults of the kind `zeros`, the longest first."""
    found = []
    for series in all_series(case):
        archives = [one for one in series.files if one.tail and "zeros" not in one.counts]
        if len(archives) > SIBLINGS:
            usual = median(one.tail for one in archives)
            found += [_bad(one, int(usual)) for one in archives if one.tail > max(PADDING, TIMES * usual)]
    return sorted(found, key=lambda one: -one.file.tail)


def _bad(file: DataFile, usual: int) -> Bad:
    at = file.size - file.tail
    what = f"its last {file.tail:,} bytes are zeros, where the others of its series end with {usual:,}"
    return Bad(file, [Fault("zeros", what, at=at, until=file.size)], 1)


# Questions about columns of text: which one training reads, and how much of it is there.
# What loaders of text call it; other columns may be empty by design.
NAMES = ("text", "content", "raw_content", "document", "documents", "body")


class Column(NamedTuple):
    """One column of all files that have it. `documents` counts all rows, those without a text as well."""

    name: str
    documents: int
    nulls: int
    blanks: int
    characters: int
    parts: list[tuple[DataFile, Texts]]

    @property
    def without(self) -> int:
        return self.nulls + self.blanks

    @property
    def is_blank(self) -> bool:
        return self.documents > 0 and self.without >= self.documents

    @property
    def mean(self) -> float:
        """Characters of a document that has some."""
        return self.characters / max(self.documents - self.without, 1)


@once
def columns(case: Case) -> list[Column]:
    """Of a check. The files that a run had trouble with say nothing of the data as a whole."""
    found: dict[str, list[tuple[DataFile, Texts]]] = {}
    if case.data is None or case.data.of_run:
        return []
    for file in case.data.files:
        for texts in [_with_nulls(file, one) for one in file.texts]:
            if texts.documents:
                found.setdefault(texts.column, []).append((file, texts))
    return [_column(name, parts) for name, parts in found.items()]


def _with_nulls(file: DataFile, texts: Texts) -> Texts:
    """Of records that need not have a key, those without it are counted beside those that have it."""
    apart = texts.documents + texts.nulls
    return msgspec.structs.replace(texts, documents=apart) if apart <= (file.samples or 0) else texts


def _column(name: str, parts: list[tuple[DataFile, Texts]]) -> Column:
    own = [texts for _, texts in parts]
    return Column(
        name,
        sum(one.documents for one in own),
        sum(one.nulls for one in own),
        sum(one.blanks for one in own),
        sum(one.characters for one in own),
        parts,
    )


def read_by_training(case: Case) -> Column | None:
    """The column that is called as loaders call it; else the only one there is, of any kind."""
    found = columns(case)
    known = sorted((one for one in found if is_named(one)), key=lambda one: NAMES.index(one.name.lower()))
    if known:
        return known[0]
    alone = len(found) == 1 and all(len(file.columns) <= 1 for file, _ in found[0].parts)
    return found[0] if alone else None


def is_named(column: Column) -> bool:
    return column.name.lower() in NAMES


def longest(case: Case) -> Column | None:
    """The column that training reads, or else the one with most in it: for who says that it trains on tokens."""
    return read_by_training(case) or max(columns(case), key=lambda one: one.characters, default=None)


def all_blank(case: Case) -> Column | None:
    """The column that training reads, if no document of it has a text."""
    own = read_by_training(case)
    return own if own is not None and own.is_blank else None
