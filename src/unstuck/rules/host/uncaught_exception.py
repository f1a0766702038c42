"""An exception that nobody caught ended the training, and no more precise rule explains it.

## What it looks at
The exception that ended a main process, written down on its way out: type, message, frames, what the process was doing,
and the batch it had last.

## Why it happens
This is the general case. The message and the line are the user's own; what unstuck adds is which rank raised first,
where the loop stood, and the sample if the exception came from fetching one.

## What to do
Start at the line named. If several ranks ended, look at the first: the others usually only lost their partner. An
error of a CUDA kernel (device-side assert, illegal memory access, launch failure) is reported late: run the command
again with `CUDA_LAUNCH_BLOCKING=1`, and the traceback ends at the line that failed.

## How sure it is
Certain that this exception ended the process. It says nothing about why the line failed. Of a CUDA error that is
reported late, the line is only *likely*; with `CUDA_LAUNCH_BLOCKING=1` torch leaves its warning out, and it is certain.
What torch, CUDA and NCCL say is known from public threads and their sources: it was not tried on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, is_users, reached, user_line
from ...analysis.failures import OWN_DECISION
from ...analysis.passes import EMPTY, raised_after_nothing
from ...analysis.torch_errors import REMOTE_ERROR, again, errors_of, late, warned, with_setting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import LoaderState
from ...evidence.process import Failure, Process
from ...wording.text import line, said, short, who
from ..rule import Level, rule


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.ECHO)
def check(case: Case) -> Iterator[Finding]:
    failed = [one for one in case.recording or () if one.role in ("main", "launcher") and _crashed(one)]
    ranks = [one for one in failed if one.role == "main"] or failed
    for process in sorted(ranks, key=lambda one: one.failure.at if one.failure else 0.0)[:1]:
        failure = process.failure
        if failure is None:
            continue
        place = user_line(failure)
        yield case.finding(
            process,
            cause=_cause(process, failure),
            seen=list(_seen(process, len(ranks))),
            remedy=_remedy(case, process, failure),
            onset_s=failure.at,
            where=place,
            subject=None if failure.index is None else Subject("sample", str(failure.index)),
            certainty=Certainty.LIKELY.value if late(failure) is not None else "",
            because_of=EMPTY if raised_after_nothing(process, failure) is not None else None,
        )


def _cause(process: Process, failure: Failure) -> str:
    place = user_line(failure)
    error = late(failure)
    if error is not None:
        name = who(process)
        spot = f", reported at {short(place)}" if place is not None else ""
        raised = f"{name[:1].upper()}{name[1:]} raised {failure.type}: CUDA error: {error.error}"
        return f"{raised}{spot}; which line failed is not known."
    where = f" at {short(place)}" if place is not None else ""
    message = f"{_message(failure.message)}{_made_from(failure)}"
    return f"{failure.type} ended {who(process)}{where}{_meanwhile(process)}: {message}"


def _made_from(failure: Failure) -> str:
    """A library often raises an exception of its own, which says little, from the one that tells what happened."""
    raised_by_library = bool(failure.frames) and not is_users(failure.frames[-1])
    if not failure.causes or not raised_by_library:
        return ""
    kind, message = failure.causes[-1]
    return f" ({kind}: {_message(message)})"


def _crashed(process: Process) -> bool:
    return (
        process.failure is not None and process.failure.how == "uncaught" and process.failure.type not in OWN_DECISION
    )


def _message(message: str) -> str:
    lines = message.strip().splitlines()
    return lines[0][:200] if lines else "no message"


def _meanwhile(process: Process) -> str:
    """The stage that failed, where it is one of the loader's own."""
    newest = process.newest_loader
    if newest is not None and newest.now == LoaderState.STARTING and newest.failed:
        return f", while the iterator of {newest.name} was made"
    return ""


def _seen(process: Process, ranks: int) -> Iterator[str]:
    failure = process.failure
    if failure is None:
        return
    place = user_line(failure)
    yield said(failure) + (f", under {line(place)} in {place.function}" if place is not None else "")
    yield from (f"raised after {kind}: {_message(message)}" for kind, message in failure.causes[-1:])
    if failure.caught:
        yield "the program caught it and called sys.exit() with a code"
    yield from warned(failure)
    yield from (f"NCCL's last error: {one.last_error}" for one in errors_of(failure)[:1] if one.last_error)
    if failure.index is not None:
        yield f"sample {failure.index} was being fetched"
    yield from (f"file in hand: {path}" for path in failure.paths[:2])
    newest = process.newest_loader
    if newest is not None:
        yield reached(newest)
    if ranks > 1:
        yield f"{ranks} processes ended by an exception; this one was the first"


def _remedy(case: Case, process: Process, failure: Failure) -> Remedy:
    error = late(failure)
    if error is not None:
        return again(case, error)
    for other in errors_of(failure)[:1]:
        if other.kind == REMOTE_ERROR:
            return Remedy(
                "Look at the other ranks and nodes first: one of them has ended, or cannot be reached any more. This "
                "one only noticed."
            )
        if other.details:
            return Remedy(
                f"Run it again with {other.details}: NCCL then prints which call failed, and why.",
                [with_setting(case, other.details)],
            )
    return Remedy(_advice(process, failure))


def _advice(process: Process, failure: Failure) -> str:
    newest = process.newest_loader
    if newest is not None and newest.now == LoaderState.STARTING and newest.failed:
        return (
            "The loader was made, but its workers or its sampler could not be started: look at what is handed to them "
            "(dataset, sampler, collate_fn, worker_init_fn), and try the same loader with num_workers=0."
        )
    if failure.paths:
        return f"Start at that line, with {failure.paths[0]} at hand."
    if failure.index is not None:
        return f"Start at that line, with sample {failure.index} at hand."
    if failure.caught:
        return "Start at that line. The program caught the exception, so it may have printed no traceback."
    return "Start at that line; the traceback above shows how it was reached."
