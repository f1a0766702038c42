"""prefetch_factor is set, and there is no worker that could load ahead.

## What it looks at
The settings that `unstuck budget` was asked about: a prefetch_factor with num_workers=0. And a target that could not
make its loader, because torch (or transformers) refused a prefetch_factor without workers.

## Why it happens
Workers load ahead: prefetch_factor says how many batches each of them has ready. With num_workers=0 the main process
loads every batch itself, when the training asks for it, and the GPU waits meanwhile. Old versions of torch ignored the
setting, newer ones refuse it.

## What to do
Give it workers, one to begin with, or leave prefetch_factor out. `unstuck tune` finds how many are worth it.

## How sure it is
Certain: it is how the DataLoader works, and where torch refused it, its own words are quoted.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...evidence.trial import FAIL, Trial
from ...wording.printable import quoted
from ...wording.settings import settings
from ...wording.text import said
from ..rule import rule

NAME = "prefetch_factor"


@rule(explains=Symptom.SLOW, certainty=Certainty.CERTAIN, needs=("trial",), outranks=("uncaught-exception",))
def check(case: Case) -> Iterator[Finding]:
    trial = case.trial
    refused = [one.failure for one in trial.rungs if one.status == FAIL and _refused(one.failure)] if trial else []
    if trial is not None and refused and refused[0] is not None:
        yield _refusal(case, trial, refused[0])
    elif trial is not None and (asked := _asked(trial)):
        yield _without_effect(case, trial, asked)


def _asked(trial: Trial) -> int | None:
    """On the command line, or set on a loader that was made without workers."""
    if trial.budget is not None and trial.budget.idle_prefetch:
        return trial.budget.idle_prefetch
    loader = trial.target.loader if trial.target is not None else None
    return loader.prefetch_factor if loader is not None and not loader.num_workers else None


def _refused(failure: Failure | None) -> bool:
    """By torch or by transformers: both name the setting, and say that it needs workers."""
    if failure is None or failure.type != "ValueError" or NAME not in failure.message:
        return False
    return "multiprocessing" in failure.message or "num_workers" in failure.message


def _refusal(case: Case, trial: Trial, failure: Failure) -> Finding:
    return case.finding(
        cause=f"The loader is given a {NAME} with num_workers=0: no worker is there to load ahead, and it is refused.",
        seen=[said(failure)],
        remedy=_remedy(trial, None),
        where=user_line(failure),
        subject=Subject("loader", trial.target.name if trial.target is not None else "the loader"),
    )


def _without_effect(case: Case, trial: Trial, asked: int) -> Finding:
    return case.finding(
        cause=f"{NAME}={asked} has no effect with num_workers=0: every batch is loaded when the training asks for it.",
        seen=[f"asked for: 0 workers, prefetch {asked}; 0 × {asked} = 0 batches are loaded ahead"],
        remedy=_remedy(trial, asked),
        where=trial.target.loader.created if trial.target is not None and trial.target.loader is not None else None,
        subject=Subject("loader", trial.target.name if trial.target is not None else "the loader"),
    )


def _remedy(trial: Trial, asked: int | None) -> Remedy:
    loader = trial.target.loader if trial.target is not None else None
    ahead = settings(loader, num_workers=1, **({NAME: asked} if asked else {}))
    name = f" {quoted(trial.target.name)}" if trial.target is not None else " TARGET"
    text = f"Have at least one worker ({ahead}) to load ahead, or leave {NAME} out."
    return Remedy(text, [f"unstuck tune{name}"] if trial.target is not None else [])
