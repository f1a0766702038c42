"""Which data files the exception that ended a run is about."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .evidence import Evidence
from .raised import raised
from .recorded import Failure, Process


def concerned(evidence: Evidence) -> set[str] | None:
    """None: it did not end by one. What a handler swallowed before is not the reason of one that came later."""
    own = [(one, one.failure) for one in evidence.mains() if one.failure is not None and one.failure.how == "uncaught"]
    own += [(one.process, one.failure) for one in raised(evidence)]
    if not own:
        return None
    paths = {name for process, failure in own for name in _named(process, failure)}
    return {os.path.join(evidence.run.cwd, one.removeprefix("file:")) for one in paths}


def _named(process: Process, failure: Failure) -> Iterator[str]:
    """In hand when it was raised; or of the shard that it was raised over, or that was being read."""
    yield from failure.paths
    for shards in process.shards:
        yield from (one.path for one in shards.errors if not one.handler or one.path in failure.message)
        yield shards.now
