"""The loader's own time limit struck: one batch took longer than `timeout=`, and torch does not say whose it was.

## What it looks at
torch's message, the sample every worker was in at that moment and for how long, and what samples take otherwise.

## Why it happens
`DataLoader(timeout=N)` ends the run when no batch has come for N seconds. One slow sample is enough, because batches
are delivered in order. Whether the worker was stuck or only slow, the message does not say.

## What to do
Look at the sample that is named: can it be read alone, and how long does it take? Raise `timeout` only if it is slow;
if it blocks, give the reader a time limit of its own.

## How sure it is
Sure that the time limit ended the run. The sample is the one that its worker had been in for longest.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Fetching, FetchState
from ...evidence.process import Failure, Process
from ...wording.text import duration, said, who
from ..rule import Level, rule

WORDS = "DataLoader timed out after"  # torch's own, in every version since 0.3
INSIDE = (FetchState.FETCHING, FetchState.LOADING, FetchState.COLLATING)


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), level=Level.GENERAL)
def check(case: Case) -> Iterator[Finding]:
    for process in case.mains:
        failure = next((one for one in process.failures if one.message.startswith(WORDS)), None)
        loader = process.newest_loader
        if failure is None or loader is None:
            continue
        busy = [
            (worker, one) for worker in case.workers_of(process, loader) for one in worker.fetching if one.now in INSIDE
        ]
        straggler = min(busy, key=lambda one: one[1].now_since, default=None)
        yield _finding(case, process, failure, straggler, loader.timeout)
        return


def _finding(
    case: Case, process: Process, failure: Failure, straggler: tuple[Process, Fetching] | None, limit: float
) -> Finding:
    seen = [said(failure)]
    sample = None
    if straggler is None:
        cause = f"No batch came within the loader's timeout of {duration(limit)}. Every worker was idle or gone."
    else:
        worker, at = straggler
        spent = max(failure.at - at.now_since, 0.0)
        sample = at.index
        named = f" with sample {sample}" if sample is not None else ""
        cause = (
            f"No batch came within the loader's timeout of {duration(limit)}, because {who(worker)} was busy{named} "
            f"for {duration(spent)}."
        )
        usual = at.sample_times
        if usual.count:
            seen.append(
                f"its {usual.count:,} samples before took {duration(usual.p50)} (half of them) to "
                f"{duration(usual.longest)} (the longest)"
            )
    return case.finding(
        process,
        cause=cause,
        seen=seen,
        remedy=Remedy(
            "See how long that sample takes alone. If it only is slow, raise DataLoader(timeout=...); if it never "
            "ends, give its reader a time limit."
        ),
        worker=straggler[0].worker if straggler else None,
        pid=straggler[0].pid if straggler else process.pid,
        onset_s=failure.at,
        where=user_line(failure),
        subject=Subject("sample", str(sample)) if sample is not None else None,
    )
