"""Documents without a text stand among the others: null, empty, or nothing but white space.

## What it looks at
The column of text that training reads (`text`, `content` and the like, or the only one): how many documents of each
file are null or blank, and how long the others are.

## Why it happens
A join that found no partner, a field of another name in some of the sources, a scraper that got an empty page, a
conversion that lost one file. A null makes a tokenizer raise. A blank text becomes an empty sequence, or is dropped:
the file has its rows and its size, and training gets less than its length says.

## What to do
Look at where these rows come from, and write them again or filter them out before training, so that lengths say what is
trained on.

## How sure it is
Certain of the counts. Nulls are told from the first one on; a key that a tenth of all JSON records lack is taken to be
optional. Blank texts are told where they are 5 % of the documents or more, or half of one file while the others have
hardly any: a few are part of any collection. Where the others are short (under 1,000 characters), rows are lines or
paragraphs, blank ones stand between them by design, and only a file that differs from the others is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.data_files import base
from ...analysis.data_series import Column, is_named, read_by_training
from ...analysis.data_wording import LINES
from ...evidence.data import DataFile, Texts
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable, quoted
from ...wording.text import many, percent
from ..rule import rule

SHARE = 0.05  # of the documents: a few are part of any collection, and to leave them out costs nothing
OPTIONAL = 0.1  # of the records: a key that so many lack is not one that every record has
HALF = 0.5  # of one file, while the others are below SHARE: that file is not what it should be
LINES_ONLY = 1000  # characters: rows whose texts are shorter are lines and paragraphs (wikitext: a third is blank)
READ = {
    "parquet": "import sys, pyarrow.parquet as pq; texts = pq.read_table(sys.argv[1])[sys.argv[2]].to_pylist(); "
    'print([i for i, x in enumerate(texts) if not (x or "").strip()][:20])',
    "jsonl": "import sys, json; texts = [json.loads(x).get(sys.argv[2]) for x in open(sys.argv[1]) if x.strip()]; "
    'print([i for i, x in enumerate(texts) if not (x or "").strip()][:20])',
}


class Odd(NamedTuple):
    """Files whose texts are missing, and how many documents that concerns."""

    parts: list[tuple[DataFile, Texts]]
    texts: int
    why: str


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    column = read_by_training(case)
    if column is None or column.is_blank:
        return
    for odd in (_nulls(column), _blanks(column), _one_file(column)):
        if odd is not None:
            yield _finding(case, column, odd)
            return


def _nulls(column: Column) -> Odd | None:
    parts = [one for one in column.parts if one[1].nulls]
    optional = all(file.format == "jsonl" for file, _ in parts) and column.nulls >= OPTIONAL * column.documents
    told = parts and is_named(column) and not optional
    return Odd(parts, column.nulls, "null: a tokenizer raises on them") if told else None


def _blanks(column: Column) -> Odd | None:
    if column.blanks < SHARE * column.documents or column.mean < LINES_ONLY:
        return None
    return Odd([one for one in column.parts if one[1].blanks], column.blanks, "blank: nothing is left to train on")


def _one_file(column: Column) -> Odd | None:
    parts = [one for one in column.parts if one[1].blanks + one[1].nulls >= HALF * one[1].documents]
    count = sum(texts.blanks + texts.nulls for _, texts in parts)
    rest, documents = column.without - count, sum(texts.documents for _, texts in parts)
    if not parts or len(parts) == len(column.parts) or rest >= SHARE * (column.documents - documents):
        return None
    return Odd(parts, count, "blank, all in the same files: nothing is left of these to train on")


def _finding(case: Case, column: Column, odd: Odd) -> Finding:
    parts = sorted(odd.parts, key=lambda one: one[1].nulls + one[1].blanks, reverse=True)
    worst = parts[0][0]
    where = base(worst.path) if len(parts) == 1 else f"{base(worst.path)} and {many(len(parts) - 1, 'other file')}"
    are = "is" if odd.texts == 1 else "are"
    return case.finding(
        cause=f"{odd.texts:,} of {many(column.documents, 'document')} in column {printable(column.name)} "
        f"({percent(odd.texts / column.documents)}, in {where}) {are} {odd.why}.",
        seen=[_line(file, texts) for file, texts in parts[:LINES]]
        + ([f"and {many(len(parts) - LINES, 'more file')} like these"] if len(parts) > LINES else []),
        remedy=Remedy(
            "Look at where these rows come from, and write the files again without them, or filter them out before "
            "training. The command prints the first of them.",
            _look(worst, column.name),
        ),
        subject=Subject("file", worst.path),
        symptom=Symptom.CRASHED.value if odd.why.startswith("null") else "",
    )


def _line(file: DataFile, texts: Texts) -> str:
    return (
        f"{printable(file.path)}: {many(texts.documents, 'document')}, {texts.nulls:,} null, {texts.blanks:,} blank, "
        f"{texts.characters:,} characters in all"
    )


def _look(file: DataFile, column: str) -> list[str]:
    code = READ.get(file.format, "")
    return [f"python -c '{code}' {quoted(file.path)} {quoted(column)}"] if code and not file.compression else []
