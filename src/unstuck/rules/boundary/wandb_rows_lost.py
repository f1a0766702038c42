"""Values are logged with `commit=False` and never committed, so wandb keeps only the last of each.

## It means
`commit=True` is wandb's default where no step is given: it ends the row. With `commit=False` the row stays open, and
the next call adds to it; a name that is there already is overwritten, silently. It is meant for a row that several
calls make up, the last of which commits. Taken as a remedy against waiting it does harm: no form of the call waits for
an upload, and all but the last value of each name are lost.

## Fix
Remove `commit=False`, or pass the step:

```python
run.log({"loss": loss}, commit=False)  # before: every call overwrites the one before
```

```python
run.log({"loss": loss})  # after: one row for each call
```

```python
run.log({"loss": loss}, step=step)  # several calls for one row: the same step
run.log({"accuracy": accuracy}, step=step)
```

## Check it yourself

```python
rows = wandb.Api().run("entity/project/run_id").history(keys=["loss"], pandas=False)
print(len(rows), "rows")  # far fewer than calls of run.log?
```

## Not this, if
- the history is sampled: `history()` returns 500 rows by default, `scan_history()` all of them
- a step smaller than the newest was passed: wandb ignores such rows and warns
- the curves end early because the upload never finished: [wandb-finish-hang](wandb-finish-hang.md)

## How sure
Judged from calls of `run.log` with `commit=False` and without a step, and how often such a call had a name that was in
the open row already: that value is overwritten, and wandb says nothing. Certain: each overwritten value is counted as
it happens. A row that several calls make up on purpose overwrites nothing, and is left alone.

## Seen in
- https://github.com/wandb/wandb/issues/554: `commit=False` collects calls into one row until a call commits
- https://github.com/wandb/wandb/issues/204: a value logged with commit=False is kept only once a later call commits
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.loader import Call, Logger
from ...evidence.process import Process
from ...wording.text import duration, many
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
    return case.finding(
        main,
        cause=f"{many(logger.lost, 'logged value')} were lost: commit=False without a step keeps only the last one.",
        seen=[f"{many(logger.uncommitted, 'call')} with commit=False and no step", *_calls(calls), *_cost(calls)],
        remedy=Remedy(
            "Remove commit=False: each call then writes a row, and none waits for an upload", code=["run.log(values)"]
        ),
        alternatives=[
            Remedy("Pass the same step to all calls that make up one row", code=["run.log(values, step=step)"]),
        ],
        where=logger.lost_at,
        subject=Subject("logger", "wandb"),
    )


def _calls(calls: list[Call]) -> list[str]:
    return [
        f"{call.where.file}:{call.where.line} ({call.where.function}): wandb.log, {many(call.timing.count, 'call')}"
        for call in calls[:4]
        if call.where is not None
    ]


def _cost(calls: list[Call]) -> list[str]:
    count = sum(call.timing.count for call in calls)
    return [f"a call takes {duration(sum(call.timing.total for call in calls) / count)} in this run"] if count else []
