"""Samples of archives that lack a part which nearly all others of their series have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from .checked import DataFile, Group
from .data_names import folder_of, pattern_of

NEARLY_ALL = 0.9  # of the samples: a part that fewer have is optional


class Lacking(NamedTuple):
    """Samples of one archive that lack parts."""

    file: DataFile
    group: Group
    missing: list[str]


class Series(NamedTuple):
    """Archives that belong together, by their names."""

    samples: int
    lacking: list[Lacking]  # the most first


def series(files: Iterable[DataFile]) -> list[Series]:
    """Those in which something is lacking, the worst first."""
    folders: dict[tuple[str, str], list[DataFile]] = {}
    for file in files:
        if file.groups:
            folders.setdefault((folder_of(file.path), pattern_of(file.path)), []).append(file)
    found = [_of(own) for own in folders.values()]
    return sorted(
        (one for one in found if one.lacking), key=lambda one: -sum(each.group.samples for each in one.lacking)
    )


def _of(files: list[DataFile]) -> Series:
    groups = [(file, group) for file in files for group in file.groups]
    total, have = sum(group.samples for _, group in groups), Counter[str]()
    for _, group in groups:
        have.update(dict.fromkeys(group.parts, group.samples))
    wanted = sorted(part for part, count in have.items() if NEARLY_ALL * total <= count < total)
    found = [
        Lacking(file, group, missing)
        for file, group in groups
        if (missing := [part for part in wanted if part not in group.parts])
    ]
    return Series(total, sorted(found, key=lambda one: -one.group.samples))
