"""The workers could not be started, because what they need cannot be pickled.

## What it looks at
The exception that ended the main process while a loader's workers were being started, raised where multiprocessing
pickles what a new process is to get; and which attributes of the dataset, collate_fn or worker_init_fn are of a kind
that cannot be sent.

## Why it happens
Workers started by `spawn` or `forkserver` get the dataset as a pickle; only forked ones simply have it. Lambdas,
functions and classes defined inside a function, locks, open files, sockets, database handles and generators cannot be
pickled. From Python 3.14 on `forkserver` is the default on Linux, so that a script that has always worked stops here.

## What to do
Move such functions to the top of a module. Open handles and make locks in the worker, at first use, or leave them out
in `__getstate__`. Or fork the workers: `multiprocessing_context="fork"`, which is safe only while no other thread runs
and CUDA is not in use.

## How sure it is
Certain that pickling failed, before any worker ran. The attributes are told by their types: the first is the one that
the exception speaks of, if it speaks of one; others may follow once that is mended.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader, LoaderState
from ...evidence.process import Failure, Process
from ...wording.text import line, many, said, who
from ..rule import rule

SENDING = (
    "/multiprocessing/reduction.py",
    "/multiprocessing/popen_spawn_posix.py",
    "/multiprocessing/popen_forkserver.py",
)
WORDS = ("pickle", "get local object", "serialize")  # "get local object": how Python 3.12 and 3.13 put it
INSIDE_FUNCTION = ("(a lambda", "(defined inside", "(of the class")
NOT_FORKED = ("spawn", "forkserver")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        failure, loader = main.failure, main.newest_loader
        if failure is None or loader is None or not _unpicklable(failure, loader):
            continue
        yield case.finding(
            main,
            cause=f"{_what(failure)} cannot be pickled, so the workers of {loader.name} could not be started.",
            seen=list(_seen(main, failure, loader)),
            remedy=_remedy(failure),
            onset_s=failure.at,
            where=user_line(failure),
            subject=Subject("attribute", failure.unpicklable[0]) if failure.unpicklable else None,
        )
        return


def _unpicklable(failure: Failure, loader: Loader) -> bool:
    starting = failure.how == "uncaught" and loader.now == LoaderState.STARTING and loader.failed is not None
    spoken = any(word in (loader.failed or "").lower() for word in WORDS)
    sending = any(frame.file.endswith(SENDING) for frame in failure.frames)
    return starting and spoken and (sending or bool(failure.unpicklable))


def _what(failure: Failure) -> str:
    return failure.unpicklable[0] if failure.unpicklable else "Something that the workers need"


def _seen(main: Process, failure: Failure, loader: Loader) -> Iterator[str]:
    place = user_line(failure)
    yield loader.failed or said(failure)
    yield f"raised while {who(main)} started the workers" + (f", under {line(place)}" if place is not None else "")
    for one in failure.unpicklable[1:]:
        yield f"nor can this be pickled: {one}"
    started = f"the {loader.context} start method" if loader.context in NOT_FORKED else "a start method that pickles"
    yield f"{many(loader.num_workers, 'worker')} by {started}; no worker ran in this pass"


def _remedy(failure: Failure) -> Remedy:
    names = failure.unpicklable
    functions = [one.partition(" (")[0] for one in names if any(mark in one for mark in INSIDE_FUNCTION)]
    handles = [one.partition(" (")[0] for one in names if not any(mark in one for mark in INSIDE_FUNCTION)]
    parts = []
    if functions:
        parts.append(
            f"Replace {' and '.join(functions)} by something defined with def or class at the top of a module; "
            "functools.partial carries arguments along."
        )
    if handles:
        parts.append(f"Make {' and '.join(handles)} in the worker, at first use, or leave it out in __getstate__.")
    if not parts:
        parts.append("Look for lambdas, locks, open files and handles in the dataset, collate_fn and worker_init_fn.")
    parts.append(
        'Or have the workers forked, by DataLoader(..., multiprocessing_context="fork"), if no other thread runs by '
        "then and CUDA is not in use."
    )
    return Remedy(" ".join(parts))
