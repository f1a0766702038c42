"""Which files are read whole, and how they are dealt out to readers: many small ones together, large ones alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import msgspec

from .messages import Task
from .noting import Wish

ENOUGH = 32 << 20  # bytes of a task: some tenths of a second, so that nobody is idle at the end for long
FILES = 500  # of a task: opening costs more than reading, for small ones


def chosen(files: Mapping[str, int], share: float | None) -> set[str]:
    """The files that are read whole: all, or such a share of them, at least one, the same ones every time."""
    if share is None:
        return set(files)
    count = max(round(len(files) * share), 1)
    return set(random.Random(0).sample(sorted(files), min(count, len(files))))  # noqa: S311


def tasks(files: Mapping[str, int], whole: set[str], wish: Wish, expected: Mapping[str, bytes]) -> Iterator[Task]:
    """In the order of the files, so that a disk is read forwards."""
    for look in (wish, msgspec.structs.replace(wish, whole=False)):
        paths: list[str] = []
        size = 0
        for path, bytes_ in files.items():
            if (path in whole) != look.whole:
                continue
            paths.append(path)
            size += bytes_ if look.whole else 0
            if size >= ENOUGH or len(paths) >= FILES:
                yield _task(paths, look, expected)
                paths, size = [], 0
        if paths:
            yield _task(paths, look, expected)


def _task(paths: list[str], wish: Wish, expected: Mapping[str, bytes]) -> Task:
    return Task(paths, wish, {path: expected[path] for path in paths if path in expected})
