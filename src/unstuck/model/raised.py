"""Exceptions that were raised while a batch was made and by which the training ended, with workers or without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .evidence import Evidence
from .phrases import who
from .questions import newest_loader
from .recorded import Failure, Loader, Process


class Raised(NamedTuple):
    """One exception, and who raised it: a worker, or the main process itself where it has none."""

    failure: Failure
    process: Process
    main: Process
    loader: Loader | None

    @property
    def by(self) -> str:
        """worker 1 (pid 12) of rank 0, where there is one: a main process needs no name."""
        return f"DataLoader {who(self.process)}" if self.process.role == "worker" else who(self.process)


def raised(evidence: Evidence) -> list[Raised]:
    """The first to raise first. What the main process caught, and went on after, is not among them."""
    found = [*_in_workers(evidence), *_in_mains(evidence)]
    return sorted(found, key=lambda one: one.failure.at)


def _in_mains(evidence: Evidence) -> Iterator[Raised]:
    """With num_workers=0. That a sample was being fetched is what the position in its stream says."""
    for main in evidence.mains():
        failure = main.failure
        if failure is not None and failure.how == "uncaught" and failure.position is not None:
            yield Raised(failure, main, main, newest_loader(main))


def _in_workers(evidence: Evidence) -> Iterator[Raised]:
    for worker in evidence.recording or ():
        owner = evidence.owner_of(worker.node, worker.pid)
        if worker.role != "worker" or owner is None or owner.main.failure is None:
            continue
        last = owner.main.failure
        ended_by = [(last.type, last.message), *last.causes]
        for one in worker.failures:
            if one.how == "fetch" and any(_is(one, *other) for other in ended_by):
                yield Raised(one, worker, owner.main, owner.loader)


def _is(failure: Failure, kind: str, message: str) -> bool:
    """torch puts the worker's type into the message it raises again; what it cannot rebuild becomes another type."""
    return f"Caught {failure.type} in DataLoader worker" in message or (failure.type, failure.message) == (
        kind,
        message,
    )
