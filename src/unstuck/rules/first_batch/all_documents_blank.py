"""The loader reads the same files endlessly, because all their texts are blank: no batch ever comes.

## It means

A loader that skips documents without text reads on until it has enough tokens. If every text is blank it never has
enough, and because its loop starts over when the files end (`while True`), it never stops either. A conversion that
lost the text, a column of another name, or placeholders instead of a download leave such files behind. It looks like
work: files are read, a CPU core is busy, the GPU is idle.

## Fix

Convert or download the files again, or read the column that holds the text:

```python
table = pq.read_table(path, columns=["text"])  # before: this column is blank
table = pq.read_table(path, columns=["content"])  # after: the one that has the text
```

And let the loader fail when an epoch over all files yields nothing:

```python
while True:
    documents = 0
    for text in texts(paths):
        if text and text.strip():
            documents += 1
            yield text
    if not documents:
        raise RuntimeError(f"no text in any of {len(paths)} files")
```

## Check it yourself

How many texts of a file are blank; put in the name of your column:

```python
import pyarrow.parquet as pq

texts = pq.read_table("part-0.parquet", columns=["text"])["text"].to_pylist()
print(sum(not (text or "").strip() for text in texts), "blank of", len(texts))
```

## Not this, if

- only some texts are blank, and batches come: [blank-texts](blank-texts.md)
- the list of files is empty, and nothing is read at all: [nanochat-empty-split-spin](nanochat-empty-split-spin.md)
- only high ranks get nothing, out of files with text: [rank-without-row-groups](rank-without-row-groups.md)
- a filter of your own drops every document: [loop-without-batch](loop-without-batch.md)
- batches do come, but late: [first-batch-slow](first-batch-slow.md)

## How sure

It is judged from what a process reads from parquet files: the rows, whether the texts it sampled (up to 32 of each row
group) are empty, null or whitespace only, and what came of them: tokens, batches, optimizer steps. It is certain of the
sampled texts and that nothing came of them. One text that is not blank, one token or one batch keeps it silent. Before
a run, `unstuck check` reads all texts of the column that training would read.
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
from ...wording.text import many, who
from ..rule import Level, rule

LOOKED = 8  # rows: fewer are an accident
LOOK = "import sys, pyarrow.parquet as pq; print(next(pq.ParquetFile(sys.argv[1]).iter_batches(5)).to_pylist())"
AGAIN = 10  # times that rows were read again that had been read before and were blank then
SHOWN = 4  # files
FAIL_EARLY = Remedy(
    "Raise an error when an epoch over all files yields no document",
    code=["if not documents:", '    raise RuntimeError("no text in any of the files")'],
)


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
        reading = [source for source in process.sources if source.kind == "rows" and source.items]
        looked, blank = sum(source.looked for source in reading), sum(source.blank for source in reading)
        if looked < LOOKED or blank < looked or _came(process) or not _goes_round(reading):
            continue
        if process.ended is not None and case.run.status == 0:
            continue
        yield _found(case, process, reading, looked)


def _came(process: Process) -> bool:
    made = any(source.made for source in process.sources if source.kind == "tokens")
    return made or gave_batches(process) or process.optimizer_steps > 0


def _goes_round(reading: list[Source]) -> bool:
    return any(source.again >= AGAIN for source in reading)


def _found(case: Case, process: Process, reading: list[Source], looked: int) -> Finding:
    known = sum(file.rows or 0 for file in process.data_files)  # rows that are read again do not count in a source
    rows = max(known, sum(source.items for source in reading))
    calls = sum(source.calls.count for source in reading)
    first = process.data_files[0] if process.data_files else None
    files = f" from {many(len(process.data_files), 'file')}" if process.data_files else ""
    return case.finding(
        process,
        cause=f"No batch will ever come: all {looked:,} texts sampled{files} are blank, and the loader rereads them "
        "endlessly.",
        seen=[
            f"{who(process)} read these {many(rows, 'row')} in {many(calls, 'call')}: 0 tokens made, no batch so far",
            f"sampled texts with anything but whitespace: 0 of {looked:,}",
            *(f"{file.path}: {many(file.rows or 0, 'row')}" for file in process.data_files[:SHOWN]),
        ],
        remedy=Remedy(
            "Print these rows, then convert or download the files again",
            [f"python -c '{LOOK}' {quoted(first.path)}"] if first else [],
        ),
        alternatives=[Remedy("Read the column that holds the text, if this is the wrong one"), FAIL_EARLY],
        onset_s=reading[0].at,
        where=reading[0].where,
        subject=Subject("file", first.path) if first else None,
    )


def _ahead(case: Case, column: Column) -> Finding:
    """Nothing runs yet."""
    files, path = column.parts, column.parts[0][0].path
    return case.finding(
        cause=f"All {many(column.documents, 'document')} in column {printable(column.name)} of "
        f"{many(len(files), 'file')} are blank: a loader that skips them would loop endlessly.",
        seen=[f"{column.nulls:,} are null, {column.blanks:,} are empty or whitespace only"]
        + [
            f"{printable(file.path)}: {many(texts.documents, 'document')}, none with a text"
            for file, texts in files[:SHOWN]
        ],
        remedy=Remedy(
            "Print these documents, then convert or download the files again",
            [f"python -c '{LOOK}' {quoted(path)}"] if path.endswith(".parquet") else [f"head -n 3 {quoted(path)}"],
        ),
        alternatives=[Remedy("Read the column that holds the text, if this is the wrong one"), FAIL_EARLY],
        subject=Subject("file", path),
        symptom="" if case.data is not None and case.data.of_run else Symptom.BAD_DATA.value,
    )
