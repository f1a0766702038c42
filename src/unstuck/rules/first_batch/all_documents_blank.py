"""Rows are read over and over, but all their texts are blank: no token is made, and no batch ever comes.

## What it looks at
What a process reads from parquet files: rows, and of a few of each row group whether their text is empty, null or white
space only. What came of it: tokens, batches, optimizer steps. Before a run, `unstuck check`: every text of every file.

## Why it happens
The loader drops documents without text and reads on until it has enough. A conversion that lost the text column's
content, a column of another name that is empty, or a download of placeholders leaves it nothing, and around it stands
`while True`. It looks like work: files are read and the processor is busy.

## What to do
Look at the files that are named, and convert or download them again. Let the loader fail when a pass over all files
brought no document.

## How sure it is
Certain of the texts that were looked at, up to 32 of each row group, and that nothing came of them. One text that is
not blank, one token or one batch keeps it silent. A check reads all texts of the column that training would read.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_series import Column, all_blank
from ...analysis.first_batch import gave_batches
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Source
from ...evidence.process import Process
from ...wording.printable import printable, quoted
from ...wording.text import line, many, short, who
from ..rule import Level, rule

LOOKED = 8  # rows: fewer are an accident
LOOK = "import sys, pyarrow.parquet as pq; print(pq.read_table(sys.argv[1]).slice(0, 5))"
AGAIN = 10  # times that something was read again which had been read before and was blank then


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.CERTAIN,
    needs=("recording|data",),
    level=Level.CAUSE,
    outranks=("workers-without-shards",),
)
def check(case: Case) -> Iterator[Finding]:
    column = all_blank(case)
    if column is not None and column.documents >= LOOKED:
        yield _ahead(case, column)
    for process in case.recording or ():
        reading = [one for one in process.sources if one.kind == "rows" and one.items]
        looked, blank = sum(one.looked for one in reading), sum(one.blank for one in reading)
        if looked < LOOKED or blank < looked or _came(process) or not _goes_round(reading):
            continue
        if process.ended is not None and case.run.status == 0:
            continue
        yield _found(case, process, reading, looked)


def _came(process: Process) -> bool:
    made = any(one.made for one in process.sources if one.kind == "tokens")
    return made or gave_batches(process) or process.optimizer_steps > 0


def _goes_round(reading: list[Source]) -> bool:
    return any(one.again >= AGAIN for one in reading)


def _found(case: Case, process: Process, reading: list[Source], looked: int) -> Finding:
    name = who(process)[:1].upper() + who(process)[1:]
    known = sum(one.rows or 0 for one in process.data_files)  # those that were read again are not counted in a source
    rows, calls = max(known, sum(one.items for one in reading)), sum(one.calls.count for one in reading)
    first = process.data_files[0] if process.data_files else None
    file = f" in {many(len(process.data_files), 'file')}" if process.data_files else ""
    return case.finding(
        process,
        cause=f"{name} reads {many(rows, 'row')}{file} over and over at {short(reading[0].where)}, and every text that "
        "was looked at is blank: nothing is left to tokenise, and no batch ever comes.",
        seen=[
            f"{looked:,} of {looked:,} texts looked at are empty, null or white space only",
            f"{many(calls, 'call')} at {line(reading[0].where)}, 0 tokens made, no batch so far",
            *(f"{one.path}: {many(one.rows or 0, 'row')}" for one in process.data_files[:4]),
        ],
        remedy=Remedy(
            "Look at the texts of these files and write them again; check that the column the loader reads is the one "
            "that holds them. And raise an error when a pass over all files brought no document.",
            [f"python -c '{LOOK}' {quoted(first.path)}"] if first else [],
        ),
        onset_s=reading[0].at,
        where=reading[0].where,
        subject=Subject("file", first.path) if first else None,
    )


def _ahead(case: Case, column: Column) -> Finding:
    """Nothing runs yet."""
    files, path = column.parts, column.parts[0][0].path
    return case.finding(
        cause=f"All {many(column.documents, 'document')} in column {printable(column.name)} of "
        f"{many(len(files), 'file')} are null or blank: a loader that drops these and reads on goes round without an "
        "end, and no batch ever comes.",
        seen=[f"{column.nulls:,} are null, {column.blanks:,} are empty or white space only"]
        + [
            f"{printable(file.path)}: {many(texts.documents, 'document')}, none with a text"
            for file, texts in files[:4]
        ],
        remedy=Remedy(
            "Look at the texts of these files and write them again; check that the column the loader reads is the one "
            "that holds them. And raise an error when a pass over all files brought no document.",
            [f"python -c '{LOOK}' {quoted(path)}"] if path.endswith(".parquet") else [f"head -n 3 {quoted(path)}"],
        ),
        subject=Subject("file", path),
    )
