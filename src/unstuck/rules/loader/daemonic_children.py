"""A DataLoader worker wanted processes of its own, and workers may not have any.

## What it looks at
The exception that ended the training: Python's own words that daemonic processes are not allowed to have children, and
the line in the worker that asked for them.

## Why it happens
DataLoader workers are daemonic: they are ended with the main process, and multiprocessing does not let such a process
start others, which would be left behind. A `multiprocessing.Pool`, a ProcessPoolExecutor, a second DataLoader with
workers or a `map(num_proc=...)` inside the dataset meets that.

## What to do
Use threads there, or nothing: the workers themselves are the processes. Or do that part before the loader is made. Or
give this loader num_workers=0, and let the inner pool do the work. A `subprocess` is allowed.

## How sure it is
Certain: the words are multiprocessing's own and mean nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case, is_users
from ...evidence.basics import Place
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Loader
from ...evidence.process import Failure, Process
from ...wording.text import line, said, short, who
from ..rule import rule

WORDS = "daemonic processes are not allowed to have children"
# Who asked for a process, by the file of a frame below the user's line: its name, and what does the same in threads.
ASKED = (
    ("/concurrent/futures/process.py", "a ProcessPoolExecutor", "a ThreadPoolExecutor"),
    ("/multiprocessing/pool.py", "a multiprocessing.Pool", "multiprocessing.pool.ThreadPool"),
    ("/multiprocessing/managers.py", "a multiprocessing.Manager", "an ordinary object with a threading.Lock"),
    ("dataloader.py", "a DataLoader with workers of its own", "num_workers=0 for the inner one"),
)
FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')  # of a traceback
ANY = ("a process", "a thread")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        if main.failure is None or not _says(main.failure):
            continue
        process, failure = _first(case, main)
        owner = case.owner_of(process.node, process.pid)
        loader = owner.loader if owner is not None else main.newest_loader
        place, wanted, instead = _asked(failure)
        spot = f" at {short(place)}" if place is not None else ""
        yield case.finding(
            process,
            cause=f"{_name(process)} wanted {wanted}{spot}, and a worker may have no processes of its own.",
            seen=list(_seen(failure, place, loader)),
            remedy=_remedy(wanted, instead, loader),
            onset_s=failure.at,
            where=place,
            subject=None if failure.index is None else Subject("sample", str(failure.index)),
        )
        return


def _says(failure: Failure) -> bool:
    return WORDS in failure.message or any(WORDS in message for _, message in failure.causes)


def _first(case: Case, main: Process) -> tuple[Process, Failure]:
    """The worker that met it first; the main process has only its words, where it came before any sample."""
    workers = [worker for loader in main.loaders for worker in case.workers_of(main, loader)]
    met = [(one, failure) for one in workers for failure in one.failures if _says(failure)]
    own = [(main, main.failure)] if main.failure is not None else []
    return min(met, key=lambda one: one[1].at) if met else own[0]


def _name(process: Process) -> str:
    return f"DataLoader {who(process)}" if process.role == "worker" else "A DataLoader worker"


def _asked(failure: Failure) -> tuple[Place | None, str, str]:
    """The user's line that asked for a process, by what, and what would do the same in threads."""
    frames = _frames(failure)
    users = [at for at, frame in enumerate(frames) if is_users(frame)]
    below = " ".join(frame.file for frame in frames[users[-1] + 1 :]) if users else ""
    wanted, instead = next(((wanted, instead) for file, wanted, instead in ASKED if file in below), ANY)
    return frames[users[-1]] if users else None, wanted, instead


def _frames(failure: Failure) -> list[Place]:
    """Where the main process raises it again, the worker's frames are only in the text."""
    told = [Place(file, int(number), function) for file, number, function in FRAME.findall(failure.message)]
    return told or failure.frames


def _seen(failure: Failure, place: Place | None, loader: Loader | None) -> Iterator[str]:
    words = said(failure) if failure.message.startswith(WORDS) else f"{failure.type}: … {WORDS}"
    yield words + (f", raised under {line(place)} in {place.function}" if place is not None else "")
    if failure.index is not None:
        yield f"with sample {failure.index}"
    if loader is not None:
        yield f"it worked for {loader.name}, which has num_workers={loader.num_workers}"


def _remedy(wanted: str, instead: str, loader: Loader | None) -> Remedy:
    name = loader.name if loader is not None else "this loader"
    return Remedy(
        f"Take {instead} in place of {wanted}, or do that part before the loader is made. Or set num_workers=0 for "
        f"{name}: the main process may have children."
    )
