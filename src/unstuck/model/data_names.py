"""Names of data files, and which of them belong to one numbered series."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..wording.printable import printable
from .checked import DataFile
from .evidence import Evidence

NUMBER = re.compile(r"\d+")
# What is made up for one job or one file: Spark and the Hugging Face Hub put such into their names.
UNIQUE = re.compile(
    r"(?<![0-9a-zA-Z])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{16,64})(?![0-9a-zA-Z])"
)
SHARDS = ("tar", "parquet", "jsonl", "arrow")  # formats of which one file holds many samples


class Series(NamedTuple):
    """Files of one folder whose names differ in numbers only, by these numbers."""

    folder: str
    pattern: str
    files: list[DataFile]


def base(path: str) -> str:
    return printable(path.rpartition("/")[2])


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def pattern_of(path: str) -> str:
    """shard-#.tar."""
    return NUMBER.sub("#", plain(path))


def numbers_of(path: str) -> tuple[int, ...]:
    return tuple(int(one[:18]) for one in NUMBER.findall(plain(path)))


def plain(path: str) -> str:
    """Its last part, without what is made up."""
    return UNIQUE.sub("*", path.rpartition("/")[2])


def all_series(evidence: Evidence) -> list[Series]:
    """Those of a check: the files that a run had trouble with are few, and say nothing about each other."""
    found: dict[tuple[str, str], list[DataFile]] = {}
    if evidence.data is None or evidence.data.of_run:
        return []
    for file in evidence.data.files:
        if not file.other:
            found.setdefault((folder_of(file.path), pattern_of(file.path)), []).append(file)
    return [
        Series(folder, pattern, sorted(files, key=lambda one: numbers_of(one.path)))
        for (folder, pattern), files in found.items()
        if "#" in pattern
    ]
