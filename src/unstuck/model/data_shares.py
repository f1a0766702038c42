"""How data files are dealt out over ranks and workers: who is left without."""

from __future__ import annotations

import re
from typing import NamedTuple

from .checked import DataFile
from .data_names import SHARDS
from .evidence import Evidence
from .web_shards import without

ARCHIVES = ("tar",)
TABLES = tuple(one for one in SHARDS if one not in ARCHIVES)
HELD_OUT = re.compile(r"(?:^|[/_.-])(?:val|valid|validation|test|eval|dev)(?=[/_.\d-])")


class TooFew(NamedTuple):
    """Files to train on, and the processes that would read them."""

    files: list[DataFile]
    ranks: int
    workers: int

    @property
    def readers(self) -> int:
        return self.ranks * self.workers

    @property
    def idle(self) -> int:
        """Processes that get no file, if files are dealt out one by one."""
        return without(len(self.files), self.ranks, self.workers)


class FewGroups(NamedTuple):
    """Parquet files of which none has a row group for every rank."""

    files: list[DataFile]
    most: int
    ranks: int


def too_few(evidence: Evidence, formats: tuple[str, ...]) -> TooFew | None:
    data = evidence.data
    if data is None or (data.asked.ranks is None and data.asked.workers is None):
        return None
    files = [one for one in _for_training(evidence) if one.format in formats]
    found = TooFew(files, max(data.asked.ranks or 1, 1), max(data.asked.workers or 1, 1))
    parts = sum(max(one.row_groups or 1, 1) for one in files)  # many loaders deal out row groups
    return found if files and parts < found.readers else None


def few_groups(evidence: Evidence) -> FewGroups | None:
    ranks = evidence.data.asked.ranks if evidence.data is not None else None
    files = [one for one in _for_training(evidence) if one.row_groups]
    most = max((one.row_groups or 0 for one in files), default=0)
    return FewGroups(files, most, ranks) if ranks and 0 < most < ranks else None


def _for_training(evidence: Evidence) -> list[DataFile]:
    """Archives, else tables: those beside archives are about them. Not what is for validation, if there is more."""
    data = evidence.data
    if data is None or data.of_run or data.stopped:
        return []
    files = [one for one in data.files if one.format in ARCHIVES] or [one for one in data.files if one.format in TABLES]
    return [one for one in files if not HELD_OUT.search(one.path.lower())] or files
