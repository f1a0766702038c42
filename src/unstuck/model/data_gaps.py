"""Files that belong into a numbered series and are not there."""

from __future__ import annotations

import re
from typing import NamedTuple

from .checked import Data
from .data_names import NUMBER, SHARDS, Series, all_series, plain
from .evidence import Evidence

FEW = 0.1  # of the numbers: where more are missing, they were left out on purpose, or count something else
OF = re.compile(r"(\d+)-of-(\d+)(?=[.-])")  # part-00003-of-00128.parquet
MOST = 10_000  # names that are written out


class Gap(NamedTuple):
    """What a series lacks."""

    series: Series
    missing: list[str]


def gaps(evidence: Evidence) -> list[Gap]:
    """The largest series first. A name that is there in another folder was moved to another split."""
    there = {plain(one.path) for one in evidence.data.files} if evidence.data is not None else set()
    found: list[Gap] = []
    for series in all_series(evidence) if evidence.data is not None and not evidence.data.stopped else ():
        if evidence.data is not None and any(one.format in SHARDS for one in series.files):
            names = _announced(series, evidence.data) if OF.search(series.files[0].path) else _between(series)
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
