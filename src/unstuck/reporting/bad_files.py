"""Data files that were checked and have faults, or are not there: the worst first."""

from __future__ import annotations

from math import inf

import msgspec

from ..analysis.case import Case
from ..analysis.data_files import Bad, Loss, absent, bad, losses
from ..report import BadFile


def bad_files(case: Case) -> list[BadFile]:
    """By what is lost. Where that is not known, a file of which nothing can be had comes first."""
    data = case.data
    if data is None:
        return []
    found = bad(case, *{kind for file in data.files for kind in file.counts})
    gone = dict.fromkeys(data.absent) | {listed.path: listed.samples for listed in absent(case)}
    damaged = sorted(zip(found, losses(case, found), strict=True), key=lambda pair: -_weight(*pair))
    return [BadFile(path, lost=samples, of=samples) for path, samples in gone.items()] + [
        _damaged(file, loss) for file, loss in damaged
    ]


def _weight(file: Bad, loss: Loss | None) -> float:
    return loss.lost if loss is not None else 0 if file.file.samples else inf


def _damaged(bad: Bad, loss: Loss | None) -> BadFile:
    known = BadFile(bad.file.path, first=bad.first, more=bad.total - 1, format=bad.file.format)
    if loss is None:
        return known
    return msgspec.structs.replace(known, lost=loss.lost, of=loss.of, about=loss.about)
