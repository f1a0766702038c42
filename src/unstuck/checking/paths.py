"""Which files a user means: paths, globs, brace ranges, folders, and addresses that fsspec knows."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import UserError
from ..wording.printable import shortened
from .source import file_system, is_address

RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
OURS = "unstuck-runs"
MOST = 10_000_000  # files of one brace range: more is a slip


class Found(NamedTuple):
    """The files with their sizes, each once, in order; and what was named and is not there."""

    files: dict[str, int]
    absent: list[str]
    odd: list[str] = []  # noqa: RUF012  (names that are no text, as they can be printed)


def find(asked: list[str], *, exact: bool = False) -> Found:
    """Raises UserError where there is nothing at all. `exact`: they are names, in which no letter is special."""
    files: dict[str, int] = {}
    absent = []
    for word in asked:
        for path in [word] if exact or os.path.lexists(word) else braces(word):
            found = dict(_one(path))
            files.update(found)
            if not found:
                absent.append(path)
    if not files:
        raise UserError(
            f"there is no file at {absent[0] if absent else asked[0]}", "look at the path, or quote the glob"
        )
    odd = [path for path in files if not _is_text(path)]
    for path in odd:
        files.pop(path)
    return Found(files, absent, [shortened(path) for path in odd])


def _is_text(path: str) -> bool:
    """Names on a disk may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


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


def _one(path: str) -> Iterator[tuple[str, int]]:
    """Every file below a folder; what a glob finds; or the path itself."""
    if is_address(path):
        yield from _elsewhere(path)
    elif os.path.isdir(path):
        yield from _below(path)
    elif os.path.lexists(path):
        yield path, _size(path)
    elif glob.has_magic(path):
        for found in sorted(glob.glob(path, recursive=True)):
            yield from _below(found) if os.path.isdir(found) else [(found, _size(found))]


def _below(folder: str) -> Iterator[tuple[str, int]]:
    """In order, without hidden ones and our own; links to folders are not followed: they may lead in a circle."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != OURS)
        for name in sorted(names):
            if not name.startswith("."):
                path = os.path.join(where, name)
                yield path, _size(path)


def _size(path: str) -> int:
    """A link that leads nowhere is told of by whoever opens it."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _elsewhere(address: str) -> Iterator[tuple[str, int]]:
    system, path = file_system(address)
    try:
        found = sorted(system.glob(path)) if glob.has_magic(path) else [path] if system.exists(path) else []
        for one in found:
            known = system.find(one, detail=True) if system.isdir(one) else {one: system.info(one)}
            for each, info in sorted(known.items()):
                yield system.unstrip_protocol(each), int(info.get("size") or 0)
    except OSError as error:
        raise UserError(f"{address}: {error}", "look at the address and what is needed to reach it") from error
