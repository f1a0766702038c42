"""Which files a user means: paths, globs, brace ranges, folders, and addresses that fsspec knows."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import UserError
from .source import file_system, is_address

RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
MOST = 10_000_000  # files of one brace range: more is a slip


class Found(NamedTuple):
    """The files, each once, in order; and what was named and is not there."""

    files: list[str]
    absent: list[str]


def find(asked: list[str]) -> Found:
    """Raises UserError where there is nothing at all."""
    files: dict[str, None] = {}
    absent = []
    for word in asked:
        for path in braces(word):
            found = list(_one(path))
            files.update(dict.fromkeys(found))
            if not found:
                absent.append(path)
    if not files:
        raise UserError(
            f"there is no file at {absent[0] if absent else asked[0]}", "look at the path, or quote the glob"
        )
    return Found(list(files), absent)


def braces(word: str) -> Iterator[str]:
    """`shard-{000..127}.tar` and `{train,val}.parquet`, as a shell writes them."""
    match = RANGE.search(word)
    if match is not None:
        first, last = int(match[1]), int(match[2])
        if not 0 <= last - first < MOST:
            raise UserError(f"{match[0]} in {word} is no range", "write the smaller number first, as {000..127}")
        options = [f"{number:0{len(match[1])}d}" for number in range(first, last + 1)]
    else:
        match = CHOICE.search(word)
        if match is None:
            yield word
            return
        options = match[1].split(",")
    for option in options:
        yield from braces(word[: match.start()] + option + word[match.end() :])


def _one(path: str) -> Iterator[str]:
    """Every file below a folder; what a glob finds; or the path itself."""
    if is_address(path):
        yield from _elsewhere(path)
    elif os.path.isdir(path):
        yield from _below(path)
    elif os.path.lexists(path):
        yield path
    elif glob.has_magic(path):
        for found in sorted(glob.glob(path, recursive=True)):
            yield from _below(found) if os.path.isdir(found) else [found]


def _below(folder: str) -> Iterator[str]:
    """In order, without hidden ones; links to folders are not followed: they may lead in a circle."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(where, name) for name in sorted(names) if not name.startswith("."))


def _elsewhere(address: str) -> Iterator[str]:
    system, path = file_system(address)
    try:
        found = sorted(system.glob(path)) if glob.has_magic(path) else [path] if system.exists(path) else []
        for one in found:
            paths = sorted(system.find(one)) if system.isdir(one) else [one]
            yield from (system.unstrip_protocol(each) for each in paths)
    except OSError as error:
        raise UserError(f"{address}: {error}", "look at the address and what is needed to reach it") from error
