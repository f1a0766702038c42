"""Questions about columns of text: which one training reads, and how much of it is there."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .checked import DataFile, Texts
from .evidence import Evidence

# What loaders of text call it; other columns may be empty by design.
NAMES = ("text", "content", "raw_content", "document", "documents", "body")


class Column(NamedTuple):
    """One column of all files that have it. `documents` counts all rows, those without a text as well."""

    name: str
    documents: int
    nulls: int
    blanks: int
    characters: int
    parts: list[tuple[DataFile, Texts]]

    @property
    def without(self) -> int:
        return self.nulls + self.blanks

    @property
    def is_blank(self) -> bool:
        return self.documents > 0 and self.without >= self.documents

    @property
    def mean(self) -> float:
        """Characters of a document that has some."""
        return self.characters / max(self.documents - self.without, 1)


def columns(evidence: Evidence) -> list[Column]:
    """Of a check. The files that a run had trouble with say nothing of the data as a whole."""
    found: dict[str, list[tuple[DataFile, Texts]]] = {}
    if evidence.data is None or evidence.data.of_run:
        return []
    for file in evidence.data.files:
        for texts in [_with_nulls(file, one) for one in file.texts]:
            if texts.documents:
                found.setdefault(texts.column, []).append((file, texts))
    return [_column(name, parts) for name, parts in found.items()]


def _with_nulls(file: DataFile, texts: Texts) -> Texts:
    """Of records that need not have a key, those without it are counted beside those that have it."""
    apart = texts.documents + texts.nulls
    return msgspec.structs.replace(texts, documents=apart) if apart <= (file.samples or 0) else texts


def _column(name: str, parts: list[tuple[DataFile, Texts]]) -> Column:
    own = [texts for _, texts in parts]
    return Column(
        name,
        sum(one.documents for one in own),
        sum(one.nulls for one in own),
        sum(one.blanks for one in own),
        sum(one.characters for one in own),
        parts,
    )


def read_by_training(evidence: Evidence) -> Column | None:
    """The column that is called as loaders call it; else the only one there is, of any kind."""
    found = columns(evidence)
    known = sorted((one for one in found if is_named(one)), key=lambda one: NAMES.index(one.name.lower()))
    if known:
        return known[0]
    alone = len(found) == 1 and all(len(file.columns) <= 1 for file, _ in found[0].parts)
    return found[0] if alone else None


def is_named(column: Column) -> bool:
    return column.name.lower() in NAMES


def longest(evidence: Evidence) -> Column | None:
    """The column that training reads, or else the one with most in it: for who says that it trains on tokens."""
    return read_by_training(evidence) or max(columns(evidence), key=lambda one: one.characters, default=None)


def all_blank(evidence: Evidence) -> Column | None:
    """The column that training reads, if no document of it has a text."""
    own = read_by_training(evidence)
    return own if own is not None and own.is_blank else None
