"""Files of one series have different columns: one is missing, extra, or of another type.

## It means
The program that writes the data was changed between two runs, pandas turned integers into floats where one is missing,
or a source calls the same thing by another name. Hugging Face `datasets` raises a CastError at an extra column, and
fills a missing one with nulls. `pyarrow.dataset` takes the columns of the first file for those of all: what a later
file lacks becomes null, and what it has in addition is silently dropped.

## Fix
Write the odd files again with the columns of the others, or keep them in a folder of their own:

```python
import pyarrow.parquet as pq

usual = pq.read_schema("data/part-00000.parquet")
table = pq.read_table("data/part-00003.parquet")
table = table.rename_columns(["text" if name == "content" else name for name in table.column_names])
pq.write_table(table.select(usual.names).cast(usual), "fixed/part-00003.parquet")
```

## Check it yourself
```python
import glob, pyarrow.parquet as pq

for path in sorted(glob.glob("data/*.parquet")):
    print(path, {field.name: str(field.type) for field in pq.read_schema(path)})
```

## Not this, if
- a column is there and holds only nulls: [blank-texts](blank-texts.md)
- two data sets lie in one folder on purpose: give each a folder of its own, or name the files of each

## How sure
Certain of names and types. They are judged from the columns of parquet and arrow files of one numbered series; of JSON
lines, from the keys that hold a text in every record. Which side is right is taken from the majority. Widths of the
same kind of number, kinds of strings, and a column that is null throughout are not reported: libraries convert these.
Files whose names differ in more than numbers are not compared, nor are keys of JSON lines that not every record has.

## Seen in
- https://github.com/huggingface/datasets/pull/6509: why the CastError says which file has other columns
- https://github.com/deepcs233/Visual-CoT/issues/29: a CastError, because one metadata file has other columns
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.data_files import Series, all_series, base
from ...analysis.data_wording import LINES, listing
from ...evidence.data import DataFile
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable, quoted
from ...wording.text import many
from ..rule import rule

TEXTS = ("because column names don't match", "All the data files must have the same columns")
TYPED = ("parquet", "arrow")
SHORT = 60  # characters
EVERY = 0.99  # of the records that have a key: then it is one of every record
# Types that libraries convert into each other without being asked.
SAME = (
    (re.compile(r"\b(large_|fixed_size_)?(list|binary)(_view)?\b"), r"\2"),
    (re.compile(r"\b(large_)?(string|utf8)(_view)?\b"), "string"),
    (re.compile(r"\bdictionary<values=([^,>]+)[^>]*>"), r"\1"),
    (re.compile(r"\bu?int(8|16|32|64)\b"), "integer"),
    (re.compile(r"\b(halffloat|half|float(16|32|64)?|double)\b"), "number"),
    (re.compile(r"\b(timestamp|time32|time64|date32|date64|duration)(\[[^\]]*\])?"), "time"),
    (re.compile(r"<(item|element|array): "), "<"),
    (re.compile(r" not null"), ""),
)


class Odd(NamedTuple):
    """Files that are not like most of their series."""

    series: Series
    usual: dict[str, str]
    like_it: int
    files: list[DataFile]


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    found = [odd for series in all_series(case) if (odd := _odd(series)) is not None]
    if found:
        yield _finding(case, max(found, key=lambda one: len(one.files)), len(found))


def _odd(series: Series) -> Odd | None:
    """Against the columns that most have; where nothing is shared at all, it is another table."""
    known = [(one, columns) for one in series.files if (columns := _columns(one))]
    if len(known) < 2:
        return None
    kind, count = Counter(frozenset(columns.items()) for _, columns in known).most_common(1)[0]
    usual = next(columns for _, columns in known if columns.items() == kind)
    odd = [file for file, columns in known if _differences(file, usual) and usual.keys() & _all(file, columns)]
    return Odd(series, usual, len(known) - len(odd), odd) if odd and count >= len(known) / 2 else None


def _columns(file: DataFile) -> dict[str, str]:
    if file.format in TYPED:
        return {name: _kind(kind) for name, kind in file.columns.items()}
    if file.format == "jsonl" and file.samples:
        return {one.column: "string" for one in file.texts if one.documents >= EVERY * file.samples}
    return {}


def _all(file: DataFile, columns: dict[str, str]) -> set[str]:
    """Of JSON lines, also what only some records have."""
    return {*columns, *(one.column for one in file.texts if one.documents and file.format == "jsonl")}


def _kind(name: str) -> str:
    for pattern, instead in SAME:
        name = pattern.sub(instead, name)
    return name


def _differences(file: DataFile, usual: dict[str, str]) -> list[str]:
    """In words. A column that is null throughout has no type to differ in; records of JSON may have what they like."""
    columns = _columns(file)
    present = _all(file, columns)
    found = [f"`{printable(name)}` is missing" for name in usual if name not in present]
    if file.format in TYPED:
        found += [f"`{printable(name)}` is extra" for name in columns if name not in usual]
    for name, kind in usual.items():
        own = columns.get(name, kind)
        if own != kind and "null" not in (own, kind):
            found.append(f"`{printable(name)}` is {printable(own)}, not {printable(kind)}")
    return found


def _finding(case: Case, odd: Odd, series: int) -> Finding:
    first, count = odd.files[0], len(odd.files)
    has = "has" if count == 1 else f"and {many(count - 1, 'other file')} have"
    elsewhere = [f"{many(series - 1, 'other series')} {'has' if series == 2 else 'have'} such files, too"]
    return case.finding(
        cause=f"{base(first.path)} {has} other columns: {_shortly(_differences(first, odd.usual))}.",
        seen=[*_seen(odd), *(elsewhere if series > 1 else [])],
        remedy=Remedy(
            f"Compare the columns, and write {listing(odd.files)} again with those of the others.", [_look(odd)]
        ),
        alternatives=[Remedy(f"Keep {'it' if count == 1 else 'them'} in another folder, as another data set.")],
        subject=Subject("file", first.path),
        symptom=Symptom.BAD_DATA.value,
    )


def _shortly(differences: list[str]) -> str:
    """As many as fit into a line: types may be nested."""
    kept = [one for one in differences if len(one) <= SHORT][:3] or ["the evidence below has them"]
    return ", ".join(kept)


def _seen(odd: Odd) -> Iterator[str]:
    usual = ", ".join(f"{printable(name)}: {printable(kind)}" for name, kind in list(odd.usual.items())[:12])
    have = "has" if odd.like_it == 1 else "have"
    yield f"{many(odd.like_it, 'file')} of {printable(odd.series.pattern)} {have}: {usual}"
    for file in odd.files[: LINES - 1]:
        yield f"{printable(file.path)}: {', '.join(_differences(file, odd.usual)[:6])}"
    if len(odd.files) >= LINES:
        yield f"and {many(len(odd.files) - LINES + 1, 'more file')}"


def _look(odd: Odd) -> str:
    """Prints the columns of one of each kind."""
    like = next(one for one in odd.series.files if one not in odd.files and _columns(one))
    paths = f"{quoted(odd.files[0].path)} {quoted(like.path)}"
    if like.format == "jsonl":
        return f"head -n 1 {paths}"
    module, call = ("parquet", "read_schema(x)") if like.format == "parquet" else ("ipc", "open_file(x).schema")
    code = f"import sys, pyarrow.{module} as p; [print(x, p.{call}, sep=chr(10)) for x in sys.argv[1:]]"
    return f"python -c {quoted(code)} {paths}"
