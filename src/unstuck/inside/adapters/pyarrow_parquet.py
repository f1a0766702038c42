"""Parquet files read with pyarrow: which were opened, how many row groups and rows, how many texts in them are blank.

No table is made for that: a few lengths are read where Arrow keeps them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from ..core.guard import Guard, Undo, clean, replace, replace_everywhere, together
from ..core.objects import ByIdentity, path_of
from ..format import Kind
from ..sources.files import blanks, files
from ..sources.library_calls import ROWS, Open, begin, counted, leave

MODULES = ("pyarrow.parquet.core",)
OWES = (Kind.SOURCE, Kind.DATA_FILE)
OPENING, READING, TABLE = "pyarrow.parquet.ParquetFile", "pyarrow.parquet", "pyarrow.parquet.read_table"
WHOLE = -1  # of a file that is read as a whole


def install(module: ModuleType, guard: Guard) -> Undo:
    owner, known = module.ParquetFile, _Known()

    def reading(measure: Any) -> Any:
        return lambda original: counted(original, ROWS, READING, guard, measure)

    return together(
        replace(owner, "__init__", lambda original: counted(original, ROWS, OPENING, guard, known.opened)),
        replace(owner, "read_row_group", reading(known.one)),
        replace(owner, "read_row_groups", reading(known.several)),
        replace(owner, "read", reading(known.whole)),
        replace(owner, "iter_batches", lambda original: _batches(original, guard, known)),
        replace_everywhere(
            module, "read_table", lambda original: counted(original, ROWS, TABLE, guard, known.whole_table)
        ),
    )


class _Known:
    """What the open files are called."""

    def __init__(self) -> None:
        self.paths: ByIdentity[str] = ByIdentity()

    def opened(self, call: Open, args: Any, kwargs: Any, _: Any) -> None:
        path = path_of(args[1] if len(args) > 1 else kwargs.get("source"))
        self.paths.set(args[0], path)
        about = args[0].metadata
        facts = about.num_row_groups + 1, about.num_rows + 1, _size(path) + 1
        call.ends(0, is_new=files.opens(path, facts, call.frame))

    def one(self, call: Open, args: Any, kwargs: Any, table: Any) -> None:
        self._read(call, args[0], [args[1] if len(args) > 1 else kwargs.get("i")], table)

    def several(self, call: Open, args: Any, kwargs: Any, table: Any) -> None:
        groups = args[1] if len(args) > 1 else kwargs.get("row_groups")
        self._read(call, args[0], list(groups) if type(groups) in (list, tuple, range) else [WHOLE], table)

    def whole(self, call: Open, args: Any, _: Any, table: Any) -> None:
        self._read(call, args[0], range(args[0].metadata.num_row_groups), table)

    def _read(self, call: Open, file: Any, groups: Any, table: Any) -> None:
        path = self.paths.get(file) or ""
        self.read(call, path, [one for one in groups if type(one) is int], len(groups), table)

    def read(self, call: Open, path: str, parts: list[int], groups: int, table: Any) -> None:
        """Row groups are counted where a tokenizer's tokens are: see format.Kind.SOURCE."""
        looked, blank = blanks(table)
        first = [files.reads(path, part) for part in parts]
        rows = table.num_rows
        call.ends(rows, groups, looked, blank, is_new=any(first) or blank < looked or (not looked and rows > 0))

    def whole_table(self, call: Open, args: Any, kwargs: Any, table: Any) -> None:
        path = path_of(args[0] if args else kwargs.get("source"))
        files.opens(path, (0, table.num_rows + 1, _size(path) + 1), call.frame)
        self.read(call, path, [WHOLE], 0, table)


def _batches(original: Any, guard: Guard, known: _Known) -> Any:
    def iter_batches(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return _each(original(self, *args, **kwargs), self, guard, known)
        except Exception as error:
            clean(error)
            raise

    return iter_batches


def _each(batches: Iterator[Any], file: Any, guard: Guard, known: _Known) -> Iterator[Any]:
    """Each batch is one call. A row group counts with its first row."""
    path, rows, group, bound = known.paths.get(file) or "", 0, 0, 0
    while True:
        call = guard.result(begin, ROWS, READING, sys._getframe(1))
        try:
            batch = next(batches)
        except StopIteration:
            return
        except Exception as error:
            clean(error)
            raise
        finally:
            if call is not None:
                leave(call)
        before = group
        while rows >= bound and group < file.metadata.num_row_groups:
            bound += file.metadata.row_group(group).num_rows
            group += 1
        rows += batch.num_rows
        if call is not None:
            guard.quietly(known.read, call, path, list(range(before, group)), group - before, batch)
        yield batch


def _size(path: str) -> int:
    """In the file system's own words; none for what is elsewhere."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return -1
