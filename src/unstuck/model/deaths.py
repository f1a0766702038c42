"""Workers that died while their loop still ran and took their main process along: for rules that say of what."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from .evidence import Evidence, Exit, Owner
from .recorded import Failure, Fetching, Loader, Process

LOOP_RETURNED = "worker loop returned"  # how a worker that is no longer needed says goodbye
LEFT = "interpreter exit"  # how one does that leaves by itself, where it was not forked
NAMED = re.compile(r"\bpid(?:\(s\))? ([\d, ]+)\)")  # torch: "DataLoader worker (pid(s) 12, 13) exited unexpectedly"
# What the main process meets instead, by race, when it fetches a tensor from a worker that is gone.
BROKEN = ("ConnectionResetError", "ConnectionRefusedError", "BrokenPipeError", "EOFError", "FileNotFoundError")
SHARING = "/multiprocessing/"


class Death(NamedTuple):
    """How a worker ended, for whom it worked, and which of its loader's workers it was."""

    seen: Exit
    worker: Process
    main: Process
    loader: Loader

    @property
    def known_code(self) -> bool:
        """Whether the status is its own: a main process that is faster ends it while it is still leaving."""
        failure = self.main.failure
        return self.worker.ended_how != LEFT or failure is None or self.seen.at <= failure.at

    @property
    def fetching(self) -> Fetching | None:
        """What it was doing when it died."""
        return self.worker.fetching[0] if self.worker.fetching else None


def worker_deaths(evidence: Evidence) -> list[Death]:
    """The first to go first, each once. One that died after its loop, or at whose death nobody failed, is not among."""
    first: dict[tuple[str, int, float], Death] = {}
    for seen in sorted(evidence.exits or (), key=lambda one: one.at):
        owner = evidence.owner_of(seen.node, seen.pid)
        if owner is not None:
            death = _death(evidence, seen, owner)
            first.setdefault((death.worker.node, death.worker.pid, death.worker.opened), death)
    return [one for one in first.values() if one.worker.ended_how != LOOP_RETURNED and _took_along(one)]


def _death(evidence: Evidence, seen: Exit, owner: Owner) -> Death:
    """A worker may have died before it could say that it is one, or before it had a recording."""
    main = owner.main
    known = evidence.process(main.node, seen.pid, seen.at)
    if known is None:
        known = Process(node=main.node, pid=seen.pid, parent=main.pid, role="worker")
    number = known.worker if known.worker is not None else owner.number
    worker = msgspec.structs.replace(known, role="worker", worker=number, rank=main.rank)
    return Death(seen, worker, main, owner.loader)


def _took_along(one: Death) -> bool:
    """The main process ended by it; or it has not ended at all, and the status alone says that something is wrong.

    Status 0 is also that of a worker which its loader ended for being slow to leave: only the main process's own words
    tell that it was still needed.
    """
    if any(_reports(failure, one) for failure in one.main.failures):
        return True
    of_its_own = any(failure.how == "uncaught" for failure in one.main.failures)
    return one.seen.status != 0 and one.main.ended is None and not of_its_own


def _reports(failure: Failure, one: Death) -> bool:
    """It names the worker. Or what was to come from a worker did not, and this one was gone by then, or leaving."""
    said = [failure.message, *(message for _, message in failure.causes)]
    pids = {int(pid) for text in said for match in NAMED.findall(text) for pid in match.split(",") if pid.strip()}
    if pids:
        return one.seen.pid in pids
    broken = failure.type in BROKEN or any(kind in BROKEN for kind, _ in failure.causes)
    gone = one.seen.status != 0 or one.seen.at <= failure.at or one.worker.ended_how == LEFT
    return broken and gone and any(SHARING in frame.file for frame in failure.frames)
