"""prefetch_factor is set, but num_workers=0: there is no worker that could load ahead.

## It means

Workers load ahead: prefetch_factor says how many batches each of them has ready. With num_workers=0 the main process
loads every batch itself, when the training requests it, and the GPU waits for that. torch below 2.0 ignored or refused
the setting depending on its value; newer versions refuse it.

## Fix

Have workers, one to begin with:

```python
loader = DataLoader(dataset, num_workers=0, prefetch_factor=4)  # before: ValueError
loader = DataLoader(dataset, num_workers=1, prefetch_factor=4)  # after: 4 batches are loaded ahead
```

Or pass it only when there are workers:

```python
ahead = {"prefetch_factor": 4, "persistent_workers": True} if workers else {}
loader = DataLoader(dataset, num_workers=workers, **ahead)
```

With transformers' Trainer: `TrainingArguments(dataloader_num_workers=1, dataloader_prefetch_factor=4)`.

## Check it yourself

```python
print(loader.num_workers, loader.prefetch_factor)  # with 0 workers it has to be None
```

## Not this, if

- there are workers, and the training waits nevertheless: [dataloader-bound](dataloader-bound.md)
- one slow batch holds up those after it: [in-order-head-of-line](in-order-head-of-line.md)
- batches that are loaded ahead take too much memory: [memory-budget-exceeded](memory-budget-exceeded.md)

## How sure

It is judged from the settings that `unstuck budget` was given, a prefetch_factor with num_workers=0, and from a target
that could not make its loader because torch or transformers refused that. It is certain: it is how the DataLoader
works, and where torch refused it, its own words are quoted.

## Seen in

- https://github.com/rom1504/clip-retrieval/issues/356: ValueError with torch 2.1 and a loader without workers
- https://github.com/autonomousvision/projected-gan/issues/102: the same after an upgrade, in Colab
- https://github.com/pytorch/pytorch/issues/68576: the old default of 2, and why it is None now
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

TEXTS = (
    "prefetch_factor option could only be specified in multiprocessing.",
    "--dataloader_prefetch_factor can only be set when data is loaded in a different process",
)

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
        cause=f"The loader could not be made: {NAME} is set, but with num_workers=0 no worker loads ahead.",
        seen=[f"{failure.type} before a loader was made"],
        saw=said(failure),
        remedy=_remedy(trial, None),
        alternatives=[WITHOUT],
        where=user_line(failure),
        subject=Subject("loader", trial.target.name if trial.target is not None else "the loader"),
    )


def _without_effect(case: Case, trial: Trial, asked: int) -> Finding:
    return case.finding(
        cause=f"{NAME}={asked} has no effect with num_workers=0: each batch is loaded when the training requests it.",
        seen=[f"0 workers × prefetch {asked} = 0 batches are loaded ahead"],
        remedy=_remedy(trial, asked),
        alternatives=[WITHOUT],
        where=trial.target.loader.created if trial.target is not None and trial.target.loader is not None else None,
        subject=Subject("loader", trial.target.name if trial.target is not None else "the loader"),
    )


def _remedy(trial: Trial, asked: int | None) -> Remedy:
    loader = trial.target.loader if trial.target is not None else None
    code = [settings(loader, num_workers=1, **({NAME: asked} if asked else {}))]
    command = [f"unstuck tune {quoted(trial.target.name)}"] if trial.target is not None else []
    return Remedy("Use at least one worker, which loads ahead; tune finds how many are worth it", command, code)


WITHOUT = Remedy(f"Remove {NAME}, if num_workers has to stay 0")
