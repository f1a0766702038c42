"""A sample cannot be loaded, or a batch not be put together, whoever does it: no worker is involved.

## What it looks at
The rungs that `unstuck doctor` climbs before there are workers: one sample, several samples, one batch, the loader
with num_workers=0. The first of them that failed; the exception with its place, the index that was being loaded, and
the files that were open or are named in it.

## Why it happens
The data or the code that reads it: a file that is damaged or missing, a shape or a key that not every sample has, a
path that is right on another machine only, a collate_fn that cannot put these samples together; or a sample that waits
for something that never comes.

## What to do
Look at that sample and that line. It happens in one process, so a debugger and print work: the last line of the
finding loads the very same sample.

## How sure it is
Certain: it was tried without a DataLoader, or without its workers. The index is the one that was asked for; the file is
one that was opened for it or that the exception names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from ...analysis.case import Case, is_users, user_line
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...evidence.trial import FAIL, Rung, Trial
from ...report import root_of
from ...wording.printable import quoted
from ...wording.text import line, said, short
from ..rule import Level, rule
from ._rungs import ended_words, loader_of, symptom_of

WITHOUT_WORKERS = ("sample", "samples", "collate", "no-workers")
FILES = 4  # that are named


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("trial",),
    level=Level.GENERAL,
    outranks=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    trial = case.trial
    if trial is None:
        return
    failed = next((one for one in trial.rungs if one.name in WITHOUT_WORKERS and one.status == FAIL), None)
    if failed is None or failed.ended == "memory":
        return
    failure, root = failed.failure, root_of(failed.findings)
    place = user_line(failure) if failure is not None else None
    yield case.finding(
        cause=_cause(trial, failed),
        seen=[*_seen(failed), *_of_root(root)],
        remedy=_remedy(trial, failed, root),
        where=place or (root.where if root is not None else None) or loader_of(trial).created,
        subject=_subject(failed) or (root.subject if root is not None else None),
        onset_s=root.onset_s if root is not None else None,
        symptom=symptom_of(failed),
    )


def _cause(trial: Trial, failed: Rung) -> str:
    dataset, failure = loader_of(trial).dataset or "the dataset", failed.failure
    if failed.ended in ("stall", "time"):
        return f"{_what(failed)} of {dataset} never comes: {failed.reason}"
    if failure is None:
        return f"{_what(failed)} of {dataset} cannot be had: {failed.reason}"
    place = user_line(failure)
    at = f" at {short(place)}" if place is not None and is_users(place) else ""
    return f"{_what(failed)} of {dataset} fails in the main process{at}: {said(failure)}"


def _what(failed: Rung) -> str:
    """Which part of loading it is."""
    failure = failed.failure
    if failure is not None and failure.collating:
        return "Putting a batch together out of samples"
    if failure is not None and failure.index is not None:
        return f"Sample {failure.index}"
    return "A sample" if failed.name in ("sample", "samples") else "A batch"


def _seen(failed: Rung) -> Iterator[str]:
    yield f"{failed.name} ({failed.title}): {ended_words(failed)}"
    failure = failed.failure
    if failure is None:
        return
    place = user_line(failure)
    yield f"{said(failure)}" + (f", at {line(place)} in {place.function}" if place is not None else "")
    if failure.paths:
        yield f"files: {', '.join(failure.paths[:FILES])}"
    if failure.shapes:
        yield f"samples of the batch: {', '.join(failure.shapes[:6])}"


def _of_root(root: Finding | None) -> list[str]:
    """What a rule knows of it beyond the exception itself."""
    return [] if root is None or root.rule in ("uncaught-exception", "worker-python-exception") else root.seen


def _remedy(trial: Trial, failed: Rung, root: Finding | None) -> Remedy:
    commands = _commands(trial, failed.failure)
    if root is not None and root.rule != "uncaught-exception":
        return msgspec.structs.replace(root.remedy, commands=[*root.remedy.commands, *commands])
    failure = failed.failure
    if failure is not None and failure.paths and not failure.collating:
        text = f"Look at {failure.paths[0]} and at that line. If such files are to be expected, leave them out early."
    elif failure is None and failed.ended == "itself":
        text = "Look at how the dataset finds its data: its list of files or rows is empty, or its stream ends at once."
    elif failed.ended in ("stall", "time"):
        text = "Look at what that line waits for. No worker is involved: it hangs in the main process as well."
    else:
        text = "Start at that line. No worker is involved: a debugger and print work."
    return Remedy(text, commands)


def _commands(trial: Trial, failure: Failure | None) -> list[str]:
    if trial.target is None or failure is None or not isinstance(failure.index, int):
        return []
    where, _, name = trial.target.name.rpartition(":")
    if not where.endswith(".py") or not name.isidentifier() or loader_of(trial).iterable:
        return []
    given = f"**{trial.target.kwargs!r}" if trial.target.kwargs else ""
    made = f'import runpy; made = runpy.run_path({json.dumps(where)})["{name}"]({given})'
    code = f'{made}; print(getattr(made, "dataset", made)[{failure.index}])'
    return [f"python -c {quoted(code)}"]


def _subject(failed: Rung) -> Subject | None:
    failure = failed.failure
    if failure is None:
        return None
    if failure.paths and not failure.collating:
        return Subject("file", failure.paths[0])
    return Subject("sample", str(failure.index)) if failure.index is not None else None
