"""Documents are so short that one batch needs hundreds of them, so every batch is slow to come.

## It means
A loader that packs documents into sequences reads and tokenizes until it has the tokens of a batch. For 65,537 tokens
that is about 20 documents of a web corpus, and about 1,300 documents of 50 tokens each. The work per document, rather
than the work per token, then decides how fast batches come, and the first batch comes last.

## Fix
Tokenize many documents in one call, or once before training:

```python
# before: one call per document
ids = [tokenizer(text)["input_ids"] for text in texts]
# after: one call for all of them, on several threads
ids = tokenizer(texts)["input_ids"]
```

Or join short documents when the data is written, or let more workers tokenize.

## Check it yourself
This prints how long the documents are on average, and about how many of them a batch needs:

```python
import pyarrow.parquet as pq

texts = pq.read_table("data/part-00000.parquet", columns=["text"])["text"].to_pylist()
tokens = sum(len(text or "") for text in texts) / len(texts) / 4
print(round(tokens), "tokens per document,", round(65_537 / tokens), "documents per batch")
```

## Not this, if
- only the first batch is slow: [first-batch-slow](first-batch-slow.md)
- most documents are empty rather than short: [blank-texts](blank-texts.md),
  [all-documents-blank](all-documents-blank.md)
- tokenizing dominates although documents are long: [heavy-transform](heavy-transform.md)

## How sure
Likely. It is judged from the number of characters and documents of the column of text that training reads, and from the
tokens of a batch (`--batch-tokens`). The number of tokens is an estimate: four characters to a token, as in English
text with a usual vocabulary. It speaks below 100 tokens per document, and only where the tokens of a batch were given.
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
MANY = 10  # documents to a batch: with fewer there is no such problem, however short they are


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
        cause=f"Documents average about {tokens:.0f} tokens, so each batch needs about {documents:,} of them.",
        seen=[
            f"a batch has {wanted:,} tokens (--batch-tokens)",
            f"column {printable(column.name)}: {many(column.documents, 'document')} of {mean:,.0f} characters on "
            f"average, in {many(len(column.parts), 'file')}",
            f"{mean:,.0f} characters are about {tokens:.0f} tokens, an estimate: {CHARACTERS} characters to a token",
        ],
        remedy=Remedy(
            "Tokenize before training, or many documents in one call: fast tokenizers then use several threads.",
            code=['ids = tokenizer(texts)["input_ids"]  # `texts`: a list of many documents'],
        ),
        alternatives=[
            Remedy("Join short documents when the data is written."),
            Remedy("Let more workers tokenize (num_workers)."),
        ],
        subject=Subject("file", file.path),
    )
