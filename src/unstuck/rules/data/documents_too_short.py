"""Documents are so short that one batch takes hundreds of them: every batch is slow to come, the first most of all.

## What it looks at
The number of characters and documents of the column of text that training reads, and the tokens of a batch
(`--batch-tokens`).

## Why it happens
A loader that packs documents into sequences reads and tokenises until it has the tokens of a batch: 65,537 of them are
20 documents of a web corpus, and 1,300 of one with 50 tokens each. The work for each document, rather than for each
token, then decides how fast batches come.

## What to do
Tokenise beforehand, or in batches of many documents and with several threads; join short documents when the data is
written; have more workers.

## How sure it is
The number of tokens is an estimate: four characters to a token, as in English text with a usual vocabulary. It speaks
below 100 tokens a document, and only where the tokens of a batch were given.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_series import Column, longest
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import printable
from ...wording.text import many
from ..rule import rule

CHARACTERS = 4  # to a token
SHORT = 100  # tokens: below, a batch of 65,537 needs more than 656 documents
MANY = 10  # documents to a batch: who needs fewer has no such problem, however short they are


@rule(explains=Symptom.SLOW, certainty=Certainty.LIKELY, needs=("data",))
def check(case: Case) -> Iterator[Finding]:
    column = longest(case)
    wanted = case.data.asked.batch_tokens if case.data is not None else None
    if column is None or not wanted or column.is_blank or not column.characters:
        return
    tokens = column.characters / (column.documents - column.nulls) / CHARACTERS
    documents = round(wanted / tokens)
    if tokens < SHORT and documents >= MANY:
        yield _finding(case, column, tokens, documents, wanted)


def _finding(case: Case, column: Column, tokens: float, documents: int, wanted: int) -> Finding:
    mean = column.characters / (column.documents - column.nulls)
    file = max(column.parts, key=lambda one: one[1].documents)[0]
    return case.finding(
        cause=f"Documents are short, about {tokens:.0f} tokens each: a batch of {wanted:,} tokens takes about "
        f"{many(documents, 'document')}, each of which has to be read and tokenised.",
        seen=[
            f"column {printable(column.name)}: {many(column.documents, 'document')} of {mean:,.0f} characters on "
            f"average, in {many(len(column.parts), 'file')}",
            f"{mean:,.0f} characters are about {tokens:.0f} tokens, an estimate: {CHARACTERS} characters to a token",
        ],
        remedy=Remedy(
            "Tokenise beforehand, or many documents in one call (`encode_batch`, `num_threads`), and let several "
            "workers do it. Or join short documents when the data is written."
        ),
        subject=Subject("file", file.path),
    )
