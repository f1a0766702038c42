"""The very files that a run had trouble with: read once more, to say what is wrong with them."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import suppress

import msgspec

from ..checking.crew import Crew
from ..checking.messages import Task
from ..checking.noting import Wish
from ..evidence import Evidence
from ..evidence.data import Asked, Data

MOST = 6  # files: the first that made trouble
SECONDS = 2.0  # a verdict is wanted soon after a crash; pyarrow alone takes half a second to be there
SIBLINGS, LOOKED = 3, 100  # files beside each that are looked at, and among how many they are looked for
OURS = (".py", ".pyc", ".so")


def added(evidence: Evidence) -> Evidence:
    """With what reading them shows, as far as there is time for it."""
    if evidence.run.host != os.uname().nodename:
        return evidence
    named = _here(evidence, _of_errors(evidence))
    paths = list(dict.fromkeys([*named, *_here(evidence, _short(evidence))]))[:MOST]
    if not paths:
        return evidence
    with Crew(1, until=time.monotonic() + SECONDS) as crew:
        tasks = [Task([path], Wish(decode=True)) for path in paths]
        tasks += [Task([path], Wish(whole=False)) for path in _beside(paths)]
        files = [one.file for one in crew.read(tasks, lambda _: None)]
    known = [one for one in files if one.format or one.faults]
    left = [path for path in named[:MOST] if path not in {one.path for one in files}]
    stopped = f"{left[0]} was not read to its end in {SECONDS:.0f} s: `unstuck check` reads it" if left else ""
    data = Data(Asked(paths, decode=True), files=known, of_run=True, stopped=stopped)
    return msgspec.structs.replace(evidence, data=data) if known or left else evidence


def named(evidence: Evidence) -> bool:
    """Whether there is anything to be read."""
    here = evidence.run.host == os.uname().nodename
    return here and bool(_of_errors(evidence) or _short(evidence))


def _beside(paths: list[str]) -> list[str]:
    """Some others of the same folder and kind: their ends show what their writer usually puts there."""
    found = dict.fromkeys(paths)
    for path in paths:
        folder, ending = os.path.dirname(path), os.path.splitext(path)[1]
        with suppress(OSError), os.scandir(folder) as entries:
            names = (one.path for one in itertools.islice(entries, LOOKED) if one.name.endswith(ending or "\0"))
            found.update(dict.fromkeys(itertools.islice((name for name in names if name not in found), SIBLINGS)))
    return list(found)[len(paths) :]


def _of_errors(evidence: Evidence) -> list[str]:
    recorded = evidence.recording or []
    found = [error.path for one in recorded for shards in one.shards for error in shards.errors]
    return found + [path for one in recorded for failure in one.failures for path in failure.paths]


def _short(evidence: Evidence) -> list[str]:
    """Files that gave fewer samples than others: that is all that a silent cut shows."""
    found = [each for one in evidence.recording or () for shards in one.shards for each in shards.short]
    return [each.path for each in sorted(found, key=lambda each: each.samples)]


def _here(evidence: Evidence, names: list[str]) -> list[str]:
    """Those that are data files of this machine."""
    paths = [os.path.join(evidence.run.cwd, name.removeprefix("file:")) for name in dict.fromkeys(names)]
    return [path for path in paths if os.path.isfile(path) and not path.endswith(OURS)]
