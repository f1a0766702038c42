"""The user's own code raised inside a DataLoader worker.

## What it looks at
The exception that a worker wrote down where it happened: type, message, frames, the index the fetcher was at, and the
files that the innermost frames had in hand. And the main process: it ended with that worker's exception.

## Why it happens
`__getitem__`, the dataset's iterator or the collate function met something it does not handle: a damaged or missing
file, an unexpected shape, a missing key. torch carries the exception to the main process, but says neither the sample
nor the file.

## What to do
Look at that sample and that line. To step through it, fetch the same index in the main process: it needs no workers.
If such samples are to be expected, handle them where they are read, and count how many there are.

## How sure it is
Certain where it happened and what was raised: it is written down by the worker itself. The file is the one the
exception names, or else one that the failing frames held, which may be a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, Owner, user_line
from ...analysis.shards import raised_over
from ...analysis.torch_errors import again, late, warned
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import ShardError
from ...evidence.process import Failure, Process
from ...wording.printable import quoted
from ...wording.text import line, said, short, who
from ..rule import Level, rule

RAISED = ("fetch", "init")


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    raised = [(failure, worker) for worker in case.recording or () for failure in _reached_main(case, worker)]
    for failure, worker in sorted(raised, key=lambda one: one[0].at)[:1]:
        owner = case.owner_of(worker.node, worker.pid)
        count = len({other.identity for _, other in raised})
        raiser = f"{_what(failure)} {failure.type} in DataLoader {who(worker)}"
        yield case.finding(
            worker,
            cause=f"{raiser}, {_sample(failure)}: {_message(failure)}",
            seen=[*_seen(failure, owner, count), *_sample_of_shard(raised_over(failure, worker))],
            remedy=_rerun(case, failure) or _of_stage(raised_over(failure, worker)) or _remedy(failure, owner),
            onset_s=failure.at,
            where=user_line(failure),
            subject=_subject(failure),
            certainty=Certainty.LIKELY.value if late(failure) is not None else "",
        )


def _reached_main(case: Case, worker: Process) -> list[Failure]:
    """Exceptions of a worker by which its main process ended, rather than caught them and went on."""
    owner = case.owner_of(worker.node, worker.pid)
    main = owner.main if owner is not None else case.process(worker.node, worker.parent)
    if main is None or main.failure is None or worker.role != "worker":
        return []
    ended_by = [(main.failure.type, main.failure.message), *main.failure.causes]
    return [one for one in worker.failures if one.how in RAISED and any(_is(one, *other) for other in ended_by)]


def _is(failure: Failure, kind: str, message: str) -> bool:
    """torch puts the worker's type and traceback into the message; what it cannot rebuild becomes another type."""
    return f"Caught {failure.type} in DataLoader worker" in message or (failure.type, failure.message) == (
        kind,
        message,
    )


def _what(failure: Failure) -> str:
    place = user_line(failure)
    return f"{short(place)} raised" if place is not None and late(failure) is None else "The dataset raised"


def _sample(failure: Failure) -> str:
    if failure.how == "init":
        return "in worker_init_fn, before its first sample"
    if failure.collating:
        return f"while collating the batch of {len(failure.indices)} samples" if failure.indices else "while collating"
    if failure.index is not None:
        return f"at sample {failure.index}"
    if failure.position is not None:
        return f"at sample number {failure.position + 1:,} of its stream"
    return "while fetching"


def _message(failure: Failure) -> str:
    first = failure.message.strip().splitlines()[:1]
    text = first[0][:200] if first else "no message"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _seen(failure: Failure, owner: Owner | None, count: int) -> Iterator[str]:
    place = user_line(failure)
    if place is not None:
        yield f"{said(failure)}, raised under {line(place)} in {place.function}"
    yield from warned(failure)
    if failure.index is not None and not failure.collating:
        yield f"sample {failure.index}, of batch {failure.batch} of this worker"
    elif failure.indices:
        yield f"samples {', '.join(str(one) for one in failure.indices[:16])}"
    if failure.stage:
        yield f"in the stage {failure.stage}" + (f" of {failure.item}" if failure.item else "")
    yield from (f"file in hand: {path}" for path in failure.paths[:2])
    if owner is not None:
        yield f"it worked for {owner.loader.name}"
    if count > 1:
        yield f"{count} workers raised; this one was the first"


def _sample_of_shard(error: ShardError | None) -> list[str]:
    return [] if error is None else [f"in {error.stage} of sample {error.key} of {error.path}"]


def _rerun(case: Case, failure: Failure) -> Remedy | None:
    """A kernel that failed is reported later than it was launched: first its line has to be found."""
    error = late(failure)
    return again(case, error) if error is not None else None


def _of_stage(error: ShardError | None) -> Remedy | None:
    """A stage of webdataset's leaves single samples out by itself, where it is told so."""
    if error is None:
        return None
    stage = "map(f" if error.stage == "map" else f"{error.stage}(…"
    return Remedy(
        f"Look at sample {error.key} of {error.path} first. If such samples are to be expected, leave them out where "
        f"they fail: `.{stage}, handler=wds.warn_and_continue)`, or let the function return None. A "
        "`.select(lambda x: x is not None)` behind it never sees them: the exception is raised before.",
        [f"tar -tvf {quoted(error.path)} | grep {quoted(error.key)}"] if error.path.startswith("/") else [],
    )


def _subject(failure: Failure) -> Subject | None:
    if failure.item:
        return Subject("file" if "/" in failure.item else "sample", failure.item)
    if failure.paths:
        return Subject("file", failure.paths[0])
    return Subject("sample", str(failure.index)) if failure.index is not None else None


def _remedy(failure: Failure, owner: Owner | None) -> Remedy:
    subject = _subject(failure)
    if failure.how == "init":
        return Remedy("Call worker_init_fn with a number by itself: what it needs must be there in every worker.")
    alone = "to see it fail in front of you, then mend the sample or the line"
    if failure.collating:
        text = (
            "Look at what these samples have in common: shapes, types, fields. Each one loads, but the batch does not."
        )
    elif subject is not None and subject.kind == "file":
        text = f"Look at {subject.name} first. If files like it are to be expected, handle them where they are read."
    elif failure.index is not None and not (owner is not None and owner.loader.iterable):
        text = f"Call dataset[{failure.index!r}] without a DataLoader {alone}."
    else:
        text = f"Iterate over the dataset without a DataLoader {alone}."
    return Remedy(text, [f"ls -l {quoted(subject.name)}"] if subject is not None and subject.kind == "file" else [])
