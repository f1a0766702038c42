"""Rules about texts: from how many blank ones on, of which column, and how short is too short."""

from __future__ import annotations

import pytest
from test_data_rules import checked, file, found, names

from unstuck.evidence.data import Asked, DataFile, Texts

LONG = 2000  # characters: documents
SHORT = 300  # lines and paragraphs


def part(number: int, documents: int = 100, nulls: int = 0, blanks: int = 0, **facts: object) -> DataFile:
    mean, column = facts.pop("mean", LONG), facts.pop("column", "text")
    texts = [Texts(column, documents, nulls, blanks, (documents - nulls - blanks) * mean)]
    return file(f"d/p-{number}.parquet", format="parquet", samples=documents, texts=[*texts, *facts.pop("more", [])])


def numbers(number: int, nulls: int) -> DataFile:
    """A table of numbers with a column for remarks."""
    known = {"x": "double", "y": "double", "remark": "string"}
    texts = [Texts("remark", 100, nulls, 0, 900)]
    return file(f"d/p-{number}.parquet", format="parquet", samples=100, columns=known, texts=texts)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([part(i) for i in range(4)], False),
        ([part(i, blanks=4) for i in range(4)], False),  # a few are part of any collection
        ([part(i, blanks=5) for i in range(4)], True),
        ([part(i, blanks=35, mean=SHORT) for i in range(4)], False),  # lines, with blank ones between paragraphs
        ([*(part(i) for i in range(60)), part(60, blanks=97)], True),  # 2 % of all, but all of one file
        ([*(part(i, blanks=35, mean=SHORT) for i in range(9)), part(9, blanks=97, mean=SHORT)], False),
        ([*(part(i, mean=SHORT) for i in range(9)), part(9, blanks=60, mean=SHORT)], True),
        ([part(0, documents=1000), part(1, documents=1000, nulls=1)], True),  # a tokenizer raises on the first null
        ([part(i, blanks=30, column="caption") for i in range(4)], True),  # the only column there is
        ([part(i, blanks=30, column="caption", more=[Texts("url", 100, 0, 0, 900)]) for i in range(4)], False),
        ([numbers(i, nulls=30) for i in range(4)], False),  # the data is in the numbers
        ([part(i, more=[Texts("title", 100, 60, 20, 900)]) for i in range(4)], False),  # not what training reads
    ],
)
def test_texts_that_are_missing_are_told_from_a_share_on(files, told):
    assert names(checked(*files)) == (["blank-texts"] if told else [])


def records(number: int, texts: int, nulls: int, blanks: int = 0) -> DataFile:
    """JSON lines count those without the key beside those that have it."""
    column = Texts("text", texts, nulls, blanks, (texts - blanks) * LONG)
    return file(f"d/l-{number}.jsonl", format="jsonl", samples=texts + nulls, texts=[column])


def test_a_key_that_many_records_lack_is_optional_and_one_that_a_few_lack_is_not():
    assert names(checked(*(records(i, 99, 1) for i in range(3)))) == ["blank-texts"]
    assert names(checked(*(records(i, 60, 40) for i in range(3)))) == []
    assert names(checked(*(records(i, 100, 0) for i in range(30)), records(30, 20, 80))) == ["blank-texts"]
    assert names(checked(*(records(i, 60, 40, blanks=60) for i in range(3)))) == ["all-documents-blank"]


def test_a_null_is_said_to_crash_a_tokenizer_and_a_blank_to_be_lost():
    (finding,) = found(checked(part(0), part(1, nulls=2)))
    assert finding.symptom == "bad data"
    assert finding.cause == (
        "2 of 200 documents in column `text` are null, all in p-1.parquet: a tokenizer raises TypeError there."
    )
    assert finding.seen[-1] == "that is 1 % of all documents"
    (finding,) = found(checked(part(0), part(1, blanks=60)))
    assert finding.symptom == "bad data"
    assert finding.cause == "60 of 200 documents in column `text` are blank, all in p-1.parquet."


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ([part(0, nulls=60, blanks=40)], True),
        ([part(0, nulls=60, blanks=40, more=[Texts("url", 100, 0, 0, 900)])], True),
        ([part(0, blanks=100, column="caption"), part(1, blanks=100, column="caption")], True),
        ([part(0, documents=7, blanks=7)], False),  # an accident
        ([numbers(0, nulls=100)], False),
        ([part(0, blanks=100, column="notes", more=[Texts("url", 100, 0, 0, 900)])], False),
    ],
)
def test_data_without_any_text_never_gives_a_batch(files, told):
    findings = [one for one in found(checked(*files)) if one.rule == "all-documents-blank"]

    assert bool(findings) == told
    assert all(one.symptom == "bad data" and one.role == "root" for one in findings)


@pytest.mark.parametrize(
    ("mean", "tokens", "told"),
    [(399, 65_537, True), (401, 65_537, False), (200, None, False), (200, 400, False), (200, 500, True)],
)
def test_documents_are_short_below_a_hundred_tokens_if_a_batch_takes_many(mean, tokens, told):
    evidence = checked(part(0, mean=mean), asked=Asked(["d"], batch_tokens=tokens))

    assert names(evidence) == (["documents-too-short"] if told else [])


def test_the_number_of_documents_is_said_to_be_an_estimate():
    (finding,) = found(checked(part(0, mean=200), asked=Asked(["d"], batch_tokens=65_537)))

    assert finding.cause == "Documents average about 50 tokens, so each batch needs about 1,311 of them."
    assert finding.seen[0] == "a batch has 65,537 tokens (--batch-tokens)"
    assert finding.seen[2] == "200 characters are about 50 tokens, an estimate: 4 characters to a token"
