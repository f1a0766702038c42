"""What was tried on purpose with somebody's loader: rung by rung, setting by setting. Seconds and bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from .budgets import Budget, Loaded
from .differences import Differences
from .finding import Finding
from .measured import Measured, Proposal, Search
from .recorded import Failure, Loader
from .settings import Settings

PASS, FAIL, SKIP = "pass", "fail", "skip"


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the user named, and what it gave."""

    name: str  # path.py:callable or module:callable
    kwargs: dict[str, Any] = {}
    gave: str = ""  # DataLoader, Dataset, IterableDataset, LightningDataModule, WebLoader
    loader: Loader | None = None  # as it is configured


class Rung(msgspec.Struct, frozen=True, omit_defaults=True):
    """One trial of a ladder: a recorded child process with a limit of time and of memory."""

    name: str
    title: str  # what is tried, as people read it
    status: str  # pass, fail, skip
    reason: str = ""  # why it failed or was left out; what it saw, where it passed
    seconds: float = 0.0
    workers: int | None = None
    batches: int = 0
    samples: int = 0
    peak: int = 0  # bytes of memory that all its processes took together
    exit: int | None = None  # as `Exit.status`
    ended: str = ""  # itself, time, memory, stall: what ended it
    failure: Failure | None = None  # that ended it, as it was recorded
    traceback: str = ""  # in full, the worker's included
    findings: list[Finding] = []  # what the rules say of its recording
    folder: str = ""  # of its recording


class Trial(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that one command tried."""

    command: str  # doctor, tune, budget
    target: Target | None = None
    settings: Settings | None = None  # of the machine and the environment
    rungs: list[Rung] = []  # in the order of climbing
    samples: list[Loaded] = []  # loaded one by one, without a DataLoader
    measured: list[Measured] = []
    limit: str = ""  # of the loader, as the differences say: storage, computing, hand-over, workers, balanced
    limit_seen: list[str] = []
    differences: Differences | None = None  # what these rest on
    search: Search | None = None
    proposals: list[Proposal] = []
    budget: Budget | None = None
