"""The script lacks `if __name__ == "__main__":`, so every worker starts the training again instead of working.

## What it looks at
A process that the main process started, and that failed while it imported the script: with Python's own words for
starting a process in the middle of an import, or because it was to choose the start method once more.

## Why it happens
A worker started by `spawn` or `forkserver` is a new Python that imports the script, to know its classes. What stands at
the top level of the script then runs again, in every worker: also the loop that starts workers. Python refuses that,
the worker exits with code 1, and the main process only says that a worker exited unexpectedly. From Python 3.14 on
`forkserver` is the default on Linux.

## What to do
Put what the script does into a function, and call it under `if __name__ == "__main__":`. Imports, classes, functions
and constants stay at the top level.

## How sure it is
Certain: the words are Python's own and are written down by the process that failed, with the line of the script that
ran a second time.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Failure, Process
from ...wording.text import ending, line, said, who
from ..rule import rule

BOOTSTRAPPING = "before the current process has finished its bootstrapping phase"
CHOSEN = "context has already been set"  # multiprocessing.set_start_method, called again
IMPORTING = ("_fixup_main_from_path", "_fixup_main_from_name")  # of multiprocessing.spawn
TOP_LEVEL = "<module>"


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    again = [(one, failure) for one in case.recording or () for failure in one.failures if _imported(failure)]
    for child, failure in sorted(again, key=lambda one: one[1].at):
        starter = _starter(case, child)
        if starter is not None and starter.ended is not None and starter.failure is None:
            continue  # it got along without
        top = _top_level(failure)
        yield case.finding(
            child,
            cause=f'{_line(top)} is not under if __name__ == "__main__":, so {_who(case, child)} ran it again '
            "instead of working, and failed there.",
            seen=list(_seen(case, child, failure, starter)),
            remedy=_remedy(top),
            worker=owner.number if (owner := case.owner_of(child.node, child.pid)) is not None else None,
            onset_s=failure.at,
            where=top or user_line(failure),
        )
        return


def _imported(failure: Failure) -> bool:
    text, importing = _flat(failure), any(frame.function in IMPORTING for frame in failure.frames)
    return BOOTSTRAPPING in text or (CHOSEN in text and importing)


def _flat(failure: Failure) -> str:
    """Python's text is laid out in lines."""
    return " ".join(failure.message.split())


def _starter(case: Case, child: Process) -> Process | None:
    """Who wanted this process: the loader's main process, or its parent. A fork server is the parent of others."""
    owner = case.owner_of(child.node, child.pid)
    return owner.main if owner is not None else case.process(child.node, child.parent)


def _top_level(failure: Failure) -> Place | None:
    """The line of the script itself: the first of the user's on the way in."""
    users = [frame for frame in failure.frames if is_users(frame)]
    return next((frame for frame in users if frame.function == TOP_LEVEL), users[0] if users else None)


def _line(top: Place | None) -> str:
    return f"Line {top.line} of {top.file.rpartition('/')[2]}" if top is not None else "What the script does"


def _who(case: Case, child: Process) -> str:
    owner = case.owner_of(child.node, child.pid)
    return f"worker {owner.number} (pid {child.pid})" if owner is not None else f"process {child.pid}"


def _seen(case: Case, child: Process, failure: Failure, starter: Process | None) -> Iterator[str]:
    top, inner = _top_level(failure), user_line(failure)
    yield f"{_who(case, child)} said: {failure.type}: {_flat(failure).partition('. ')[0]}"
    if top is not None:
        further = f", and from there to {line(inner)}" if inner is not None and inner != top else ""
        yield f"it had come to {line(top)} while it imported the script{further}"
    seen = case.exit_of(child)
    if seen is not None:
        yield f"it {ending(seen.status)}"
    if starter is not None and starter.failure is not None:
        yield f"{who(starter)} then ended by {said(starter.failure, 160)}"
    if starter is not None and not any(loader.batches for loader in starter.loaders):
        yield "no batch ever came"


def _remedy(top: Place | None) -> Remedy:
    at = f"what stands at the top level of {top.file}, line {top.line} among it" if top is not None else "what it does"
    return Remedy(
        f'Move {at}, into a function main(), and end the script with: if __name__ == "__main__": main(). Imports, '
        "classes and functions stay where they are."
    )
