"""A file has zeros where no data of its kind has any: a part of it was never written, or was lost.

## What it looks at
Runs of zeros in places where there cannot be any: 512 bytes of the compressed data of an image, 16 of text, in
lines of JSON.

## Why it happens
A machine that went down before its page cache was on the disk leaves files of the right length with zeros in them. So
do downloads that reserve the whole file first and are interrupted, sparse copies, and storage that gives back zeros for
a block it has lost. Sizes agree, archives can be listed, and Pillow shows many such images without a word, grey from
there on: training goes on with them.

## What to do
Fetch or write the file again, and look at others of the same time: such damage comes in heaps.

## How sure it is
Certain that the zeros are there, and that this kind of data has none in that place. Padding and metadata are not meant.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.data_files import Bad, bad
from ...analysis.data_wording import fetch, finding, named
from ...evidence.finding import Certainty, Finding, Symptom
from ...wording.text import many
from ..rule import rule

TEXTS, TABLES = ("jsonl", "json"), ("parquet", "arrow")


@rule(
    explains=Symptom.WRONG,
    certainty=Certainty.CERTAIN,
    needs=("data",),
    outranks=("worker-python-exception", "uncaught-exception"),
    yields_to=("handler-drops-shard-rest", "shard-read-errors"),
)
def check(case: Case) -> Iterator[Finding]:
    found = bad(case, "zeros")
    if found:
        name, has = named([one.file for one in found]), "has" if len(found) == 1 else "have"
        yield finding(
            case,
            found,
            f"{name} {has} zeros where such data has none, {_first(found)}: a part of it was never written, or was "
            f"lost, and {_lost(found)} not what was written.",
            fetch(case, found),
            Symptom.CRASHED.value if _raises(found[0]) else "",
        )


def _raises(one: Bad) -> bool:
    """Tables lose their index by it, and no JSON has a zero; a text in a row, or an image, only looks strange."""
    return one.file.format in TEXTS or (one.file.format in TABLES and one.first.row is None)


def _first(found: list[Bad]) -> str:
    fault = found[0].first
    at = f"byte {fault.at:,}" if fault.at is not None else "one place"
    inside = f" in {fault.member}" if fault.member else ""
    more = sum(one.total for one in found) - 1
    return f"at {at}{inside}" + (f" and in {many(more, 'other place')}" if more else "")


def _lost(found: list[Bad]) -> str:
    lost = sum(one.lost or 0 for one in found)
    return f"{many(lost, 'sample')} {'is' if lost == 1 else 'are'}" if lost else "it is"
