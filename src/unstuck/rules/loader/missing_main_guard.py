"""A script without a `__main__` guard is run again by every worker that spawn or forkserver starts.

## It means
A worker started by `spawn` or `forkserver` is a new Python that imports the script, to know its classes. Everything at
the top level of the script then runs again, in every worker: also the loop that starts workers. Python refuses that,
the worker exits with code 1, and the main process says only that a worker exited unexpectedly. From Python 3.14 on,
`forkserver` is the default on Linux, so a script that has always worked fails there.

## Fix
Put what the script does into a function, and call it under the guard. Imports, classes, functions and constants stay
at the top level.
```python
# before
dataset = Squares()
for batch in DataLoader(dataset, num_workers=2, multiprocessing_context="spawn"):
    train(batch)


# after
def main():
    dataset = Squares()
    for batch in DataLoader(dataset, num_workers=2, multiprocessing_context="spawn"):
        train(batch)


if __name__ == "__main__":
    main()
```

## Check it yourself
Importing the script must start nothing:
```sh
python -c "import train"  # for train.py, from its folder
```

## Not this, if
- the main process itself raises a pickle error: [unpicklable-dataset](unpicklable-dataset.md)
- the worker exits with another code, or later: [worker-exited-silently](worker-exited-silently.md)
- the text is "daemonic processes are not allowed to have children": [daemonic-children](daemonic-children.md)

## How sure
Judged from a process that the main process started and that failed while it imported the script: with Python's own
words for starting a process in the middle of an import, or because it was to choose the start method once more.
Certain: the words are written down by the process that failed, with the line of the script that ran a second time. It
stays silent where the main process ended well all the same.

## Seen in
- https://github.com/pytorch/pytorch/issues/5858: a loop over a loader at the top level of a script, on Windows.
- https://github.com/patrickloeber/pytorch-chatbot/issues/2: the same in a training script with `num_workers=2`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...evidence.process import Failure, Process
from ...wording.text import ending, line, said, who
from ..rule import rule

TEXTS = (
    "An attempt has been made to start a new process before the",
    "current process has finished its bootstrapping phase.",
    "This probably means that you are not using fork to start your",
    "freeze_support()",
    "context has already been set",
)

BOOTSTRAPPING = "before the current process has finished its bootstrapping phase"
CHOSEN = TEXTS[-1]  # multiprocessing.set_start_method, called again
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
            cause=f'{_line(top)} without an `if __name__ == "__main__":` guard, so {_short(case, child)} ran it again '
            "and crashed.",
            seen=list(_seen(case, child, failure, starter)),
            remedy=_remedy(top),
            worker=owner.number if (owner := case.owner_of(child.node, child.pid)) is not None else None,
            onset_s=failure.at,
            where=top or user_line(failure),
            saw=f"{failure.type}: {_flat(failure).partition('. ')[0]}",
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
    return f"{top.file.rpartition('/')[2]} runs line {top.line}" if top is not None else "The script runs"


def _who(case: Case, child: Process) -> str:
    owner = case.owner_of(child.node, child.pid)
    return f"worker {owner.number} (pid {child.pid})" if owner is not None else f"process {child.pid}"


def _short(case: Case, child: Process) -> str:
    owner = case.owner_of(child.node, child.pid)
    return f"worker {owner.number}" if owner is not None else f"process {child.pid}"


def _seen(case: Case, child: Process, failure: Failure, starter: Process | None) -> Iterator[str]:
    top, inner = _top_level(failure), user_line(failure)
    seen = case.exit_of(child)
    end = f", then {ending(seen.status)}" if seen is not None else ""
    yield f"{_who(case, child)} was importing the script{end}"
    if top is not None and inner is not None and inner != top:
        yield f"it raised at {line(inner)}, called from there"
    if starter is not None and starter.failure is not None:
        yield f"{who(starter)} then raised {said(starter.failure, 160)}"
    if starter is not None and not any(loader.batches for loader in starter.loaders):
        yield "no batch was ever loaded"


def _remedy(top: Place | None) -> Remedy:
    started = f"the code at line {top.line}" if top is not None else "the script's top-level code"
    return Remedy(
        f"Move {started} and all that runs with it into main(); imports, classes and functions stay",
        code=["def main():", "    ...  # what the script does", "", 'if __name__ == "__main__":', "    main()"],
    )
