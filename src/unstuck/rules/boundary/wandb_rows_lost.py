"""Values are logged with `commit=False` and never committed, so wandb keeps only the last of each.

## What it looks at
Calls of `run.log` with `commit=False` and without a step, and how often such a call brought a name that was in the open
row already: the value before is gone then, and wandb says nothing.

## Why it happens
`commit=True` is wandb's default where no step is given: it ends the row. With `commit=False` the row stays open, and
the next call adds to it; a name that is there already is overwritten. It is meant for a row that is put together by
several calls, of which the last one commits. Taken as a remedy against waiting it does harm: no form of the call waits
for an upload, and all but the last value of each name are lost.

## What to do
Leave `commit` out, or pass `step=` with every call. If several places log for one step, let all but the last have
`commit=False`.

## How sure it is
Sure: each overwritten value is counted as it happens. A row that is put together on purpose overwrites nothing, and is
not told.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Call, Logger
from ...evidence.process import Process
from ...wording.text import duration, many, short
from ..rule import rule

LOST = 10  # values: a few may be corrections
SHARE = 0.5  # of the calls without commit: below, most rows are as they were meant


@rule(explains=Symptom.WRONG, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    for main in case.mains:
        for logger in main.loggers:
            if logger.mode != "disabled" and logger.lost >= max(LOST, SHARE * logger.uncommitted):
                yield _finding(case, main, logger)
                return


def _finding(case: Case, main: Process, logger: Logger) -> Finding:
    calls = [one for one in main.calls if one.name == "wandb.log"]
    where = logger.lost_at
    spot = f" at {short(where)}" if where is not None else ""
    who = f"Rank {main.rank}" if main.rank is not None else "The run"
    return case.finding(
        main,
        cause=f"{who} has lost {many(logger.lost, 'logged value')}: run.log{spot} is called with commit=False and "
        "without a step, so each value takes the place of the one before, and only the last is stored.",
        seen=[
            f"{many(logger.uncommitted, 'call')} with commit=False and no step; {many(logger.lost, 'value')} were "
            "overwritten before their row was written",
            *_calls(calls),
        ],
        remedy=Remedy(
            "Leave commit out: run.log(values). It is the default, it writes one row for each call, and it does not "
            f"wait for an upload{_cost(calls)}. Where several calls make up one row, pass the same step= to each, or "
            "commit=False to all but the last."
        ),
        where=where,
        subject=Subject("logger", "wandb"),
    )


def _calls(calls: list[Call]) -> list[str]:
    return [
        f"{one.where.file}:{one.where.line} ({one.where.function}): wandb.log, {many(one.timing.count, 'call')}"
        for one in calls[:4]
        if one.where is not None
    ]


def _cost(calls: list[Call]) -> str:
    count = sum(one.timing.count for one in calls)
    return f" (a call takes {duration(sum(one.timing.total for one in calls) / count)} in this run)" if count else ""
