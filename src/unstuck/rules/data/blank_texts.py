"""Documents without a text are among the others: null, empty, or only whitespace.

## It means
A join found no partner, some sources call the field by another name, a scraper got an empty page, or a conversion lost
one file. A null makes a tokenizer raise a TypeError. A blank text becomes an empty sequence or is dropped: the file has
its rows and its size, and training silently gets less than its length says.

## Fix
Find out where these rows come from, and write the files again without them. Or filter them out before training, so the
length of the dataset says what is trained on:

```python
# before
dataset = load_dataset("parquet", data_files="data/*.parquet", split="train")
# after
dataset = dataset.filter(lambda row: bool((row["text"] or "").strip()))
```

## Check it yourself
This prints how many rows of each file have no text:

```python
import glob, pyarrow.parquet as pq

for path in sorted(glob.glob("data/*.parquet")):
    texts = pq.read_table(path, columns=["text"])["text"].to_pylist()
    print(path, len(texts), sum(not (text or "").strip() for text in texts))
```

## Not this, if
- every document is blank, and no batch ever comes: [all-documents-blank](all-documents-blank.md)
- the column is called otherwise in some files: [schemas-differ](schemas-differ.md)
- the file itself holds no rows: [empty-file](empty-file.md)

## How sure
Certain of the counts. It is judged from the column of text that training reads (`text`, `content` and the like, or the
only one): how many documents of each file are null or blank, and how long the others are. Nulls are reported from the
first on; a key that a tenth of all JSON records lack is taken to be optional. Blank texts are reported where they are 5
% of the documents or more, or half of one file while the others have hardly any: a few are part of any collection.
Where the others are short (under 1,000 characters), rows are lines or paragraphs with blank ones between them by
design, and only a file that differs from the others is reported.

## Seen in
- https://github.com/Lightning-AI/litgpt/issues/1759: `TextInputSequence must be str`, because some rows were NULL
- https://github.com/webis-de/small-text/issues/73: None among the texts ends in a TypeError of the tokenizer
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
from ...wording.printable import printable
from ...wording.text import many, percent
from ..rule import rule

TEXTS = (
    "TextInputSequence must be str",
    "TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]",
)
SHARE = 0.05  # of the documents: a few are part of any collection, and skipping them costs nothing
OPTIONAL = 0.1  # of the records: a key that so many lack is not one that every record has
HALF = 0.5  # of one file, while the others are below SHARE: that file is not what it should be
LINES_ONLY = 1000  # characters: rows whose texts are shorter are lines and paragraphs (wikitext: a third is blank)
READ = {
    "parquet": ["import pyarrow.parquet as pq", "texts = pq.read_table({path})[{column}].to_pylist()"],
    "jsonl": [
        "import json",
        "texts = [json.loads(line).get({column}) for line in open({path}) if line.strip()]",
    ],
}
PRINTED = 'print([row for row, text in enumerate(texts) if not (text or "").strip()][:20])'


class Odd(NamedTuple):
    """Files whose texts are missing, how many documents that concerns, and what is wrong with these."""

    parts: list[tuple[DataFile, Texts]]
    texts: int
    nulls: bool = False


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
    return Odd(parts, column.nulls, nulls=True) if told else None


def _blanks(column: Column) -> Odd | None:
    if column.blanks < SHARE * column.documents or column.mean < LINES_ONLY:
        return None
    return Odd([one for one in column.parts if one[1].blanks], column.blanks)


def _one_file(column: Column) -> Odd | None:
    parts = [one for one in column.parts if one[1].blanks + one[1].nulls >= HALF * one[1].documents]
    count = sum(texts.blanks + texts.nulls for _, texts in parts)
    rest, documents = column.without - count, sum(texts.documents for _, texts in parts)
    if not parts or len(parts) == len(column.parts) or rest >= SHARE * (column.documents - documents):
        return None
    return Odd(parts, count)


def _finding(case: Case, column: Column, odd: Odd) -> Finding:
    parts = sorted(odd.parts, key=lambda one: one[1].nulls + one[1].blanks, reverse=True)
    worst = parts[0][0]
    what = "null" if odd.nulls else "blank"
    return case.finding(
        cause=f"{odd.texts:,} of {many(column.documents, 'document')} in column `{printable(column.name)}` "
        f"{'is' if odd.texts == 1 else 'are'} {what}, {'all ' if odd.texts > 1 else ''}in "
        f"{_where(parts)}{': a tokenizer raises TypeError there' if odd.nulls else ''}.",
        seen=[_line(file, texts) for file, texts in parts[:LINES]]
        + ([f"and {many(len(parts) - LINES, 'more file')} like these"] if len(parts) > LINES else [])
        + [f"that is {percent(odd.texts / column.documents)} of all documents"],
        remedy=Remedy(
            "Find out where these rows come from, and write the files again without them.",
            code=_look(worst, column.name),
        ),
        alternatives=[
            Remedy(
                "Filter them out before training, with Hugging Face datasets:",
                code=[f'dataset = dataset.filter(lambda row: bool((row[{column.name!r}] or "").strip()))'],
            )
        ],
        subject=Subject("file", worst.path),
        symptom=Symptom.BAD_DATA.value,
    )


def _where(parts: list[tuple[DataFile, Texts]]) -> str:
    first = base(parts[0][0].path)
    return first if len(parts) == 1 else f"{first} and {many(len(parts) - 1, 'other file')}"


def _line(file: DataFile, texts: Texts) -> str:
    return (
        f"{printable(file.path)}: {many(texts.documents, 'document')}, {texts.nulls:,} null, {texts.blanks:,} blank, "
        f"{texts.characters:,} characters in total"
    )


def _look(file: DataFile, column: str) -> list[str]:
    """Prints the numbers of the first of them."""
    lines = READ.get(file.format, []) if not file.compression else []
    return [*(line.format(path=repr(file.path), column=repr(column)) for line in lines), *[PRINTED][: len(lines)]]
