"""Exceptions by which a training ended, each where it was raised: in a worker, in a thread, in the loop.

For rules about what runs out: descriptors, mappings, memory of a GPU. It runs out in one process, and another one ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .deaths import BROKEN
from .evidence import Evidence
from .places import Place
from .questions import is_users, newest_loader, user_line
from .raised import Raised, raised
from .recorded import Failure, Process

OWN_DECISION = ("KeyboardInterrupt", "SystemExit", "Exit")  # the last is how click and typer leave with a code
LOADER = "/utils/data/"  # torch's loader
STATEFUL = "/torchdata/"
PINNING = "/_utils/pin_memory.py"  # the thread between the workers and the loop
CARRIED = "Original Traceback"
FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
PIN_LOOP = "_pin_memory_loop"
PIN_THREAD_DIED = "Pin memory thread exited unexpectedly"


def fatal(evidence: Evidence) -> list[Raised]:
    """The first to be raised first, which is the one to look at; the last is that of the main process itself."""
    found = [*raised(evidence), *_while_sending(evidence), *_while_pinning(evidence), *_in_loops(evidence)]
    return sorted(found, key=lambda one: one.failure.at)


def ended_by(main: Process) -> Failure | None:
    """The exception that ended a main process; none, if that was somebody's decision."""
    failure = main.failure
    crashed = failure is not None and failure.how == "uncaught" and failure.type not in OWN_DECISION
    return failure if crashed else None


def raised_at(failure: Failure) -> Place | None:
    """The user's innermost line.

    torch carries the exception of a worker or a replica along with its traceback as text: the line is in there
    then, and the frames say only where it was raised again.
    """
    if CARRIED in failure.message:
        told = [Place(file, int(line), function) for file, line, function in FRAME.findall(failure.message)]
        found = next((place for place in reversed(told) if is_users(place)), None)
        if found is not None:
            return found
    return user_line(failure)


def _in_loops(evidence: Evidence) -> Iterator[Raised]:
    for main in evidence.recording or ():
        failure = ended_by(main)
        if failure is not None and main.role in ("main", "launcher") and failure.position is None:
            yield Raised(failure, main, main, newest_loader(main))


def _while_pinning(evidence: Evidence) -> Iterator[Raised]:
    """The thread that takes batches from the workers has a traceback of its own; its loop is only told that it died."""
    for main in evidence.mains():
        final = ended_by(main)
        if final is not None and PIN_THREAD_DIED in final.message:
            yield from (Raised(one, main, main, newest_loader(main)) for one in main.failures if pinning(one))


def pinning(failure: Failure) -> bool:
    """Python names a thread after what it runs; of a deep traceback only the innermost frames are kept."""
    inside = PIN_LOOP in failure.thread or any(PINNING in frame.file for frame in failure.frames)
    return failure.how == "thread" and inside


def _while_sending(evidence: Evidence) -> Iterator[Raised]:
    """A batch that cannot be sent is dropped: its main process waits for it for ever, or meets a broken connection.

    Then it has not read what the worker raised afterwards, either.
    """
    for worker in evidence.recording or ():
        owner = evidence.owner_of(worker.node, worker.pid)
        if owner is not None:
            yield from (
                Raised(one, worker, owner.main, owner.loader) for one in worker.failures if _suffers(owner.main, one)
            )


def _suffers(main: Process, one: Failure) -> bool:
    """It has not come to its end, or it ended by an exception in the loader."""
    final = ended_by(main)
    if final is None:
        return main.ended is None and one.how != "fetch"
    in_loader = any(LOADER in frame.file or STATEFUL in frame.file for frame in final.frames)
    return in_loader and one.at <= final.at and (one.how != "fetch" or final.type in BROKEN)
