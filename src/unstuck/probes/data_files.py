"""The very files that a run had trouble with: read once more, to say what is wrong with them."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from ..checking.crew import Crew
from ..checking.messages import Task
from ..checking.noting import Wish
from ..model.checked import Asked, Data
from ..model.evidence import Evidence

MOST = 6  # files: the first that made trouble
SECONDS = 1.0  # a verdict is wanted two seconds after a crash
SIBLINGS, LOOKED = 3, 100  # files beside each that are looked at, and among how many they are looked for
OURS = (".py", ".pyc", ".so")


def added(evidence: Evidence) -> Evidence:
    """With what reading them shows, as far as there is time for it."""
    here = evidence.run.host == os.uname().nodename
    paths = list(dict.fromkeys(_suspects(evidence)))[:MOST] if here else []
    if not paths:
        return evidence
    with Crew(1, until=time.monotonic() + SECONDS) as crew:
        tasks = [Task([path], Wish(decode=True)) for path in paths]
        tasks += [Task([path], Wish(whole=False)) for path in _beside(paths)]
        files = [one.file for one in crew.read(tasks, lambda _: None)]
    known = [one for one in files if one.format or one.faults]
    data = Data(Asked(paths, decode=True), files=known, of_run=True)
    return msgspec.structs.replace(evidence, data=data) if known else evidence


def _beside(paths: list[str]) -> list[str]:
    """Some others of the same folder and kind: their ends show what their writer usually puts there."""
    found = dict.fromkeys(paths)
    for path in paths:
        folder, ending = os.path.dirname(path), os.path.splitext(path)[1]
        with suppress(OSError), os.scandir(folder) as entries:
            names = (one.path for one in itertools.islice(entries, LOOKED) if one.name.endswith(ending or "\0"))
            found.update(dict.fromkeys(itertools.islice((name for name in names if name not in found), SIBLINGS)))
    return list(found)[len(paths) :]


def _suspects(evidence: Evidence) -> Iterator[str]:
    """Those of errors first; then files that gave fewer samples than others, which is all that a silent cut shows."""
    recorded = evidence.recording or []
    lists = [shards for process in recorded for shards in process.shards]
    named = [error.path for one in lists for error in one.errors]
    named += [path for one in recorded for failure in one.failures for path in failure.paths]
    short = sorted((each for one in lists for each in one.short), key=lambda each: each.samples)
    for name in (*named, *(each.path for each in short)):
        path = os.path.join(evidence.run.cwd, name.removeprefix("file:"))
        if os.path.isfile(path) and not path.endswith(OURS):
            yield path
