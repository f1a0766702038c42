"""Whose worker a process is: by the pids its loader knows. Workers of a fork server have another parent."""

from __future__ import annotations

from typing import NamedTuple

from .evidence import Evidence
from .recorded import Loader, Process


class Owner(NamedTuple):
    """The main process and loader a worker works for, and which of its workers it is."""

    main: Process
    loader: Loader
    number: int


def owner_of(evidence: Evidence, pid: int) -> Owner | None:
    for main in evidence.mains():
        for loader in main.loaders:
            if pid in loader.pids:
                return Owner(main, loader, loader.pids.index(pid) % max(loader.num_workers, 1))
    return None
