"""A sample cannot be loaded, or a batch cannot be collated, even in the main process without workers.

## It means

It is the data or the code that reads it: a file that is damaged or missing, a shape or a key that not every sample has,
a path that is right on another machine only, a `collate_fn` that cannot stack these samples; or a sample that waits for
something that never comes. The DataLoader's workers have no part in it.

## Fix

Repair or replace the file, or exclude it when the list of samples is made:

```python
self.paths = sorted(glob.glob("data/*.npy"))  # before
self.paths = [path for path in sorted(glob.glob("data/*.npy")) if readable(path)]  # after
```

If samples have different shapes, crop or pad them before they are collated:

```python
def collate(samples):
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
```

Do not catch the exception and return another sample: the data set then gets smaller without a message.

## Check it yourself

Load the very same sample in one process, where a debugger and `print` work:

```python
dataset = loader.dataset
dataset[13]
```

Or the whole loader without workers: `DataLoader(dataset, num_workers=0)`. Look at the file, too:

```sh
ls -l data/patient013.npy && file data/patient013.npy
```

## Not this, if

- it fails with workers only: [works-without-workers](works-without-workers.md)
- it takes too much memory: [memory-budget-exceeded](memory-budget-exceeded.md)
- it works, but slowly: [heavy-transform](heavy-transform.md), [slow-storage](slow-storage.md)
- `unstuck check` finds the file first: [file-damaged](file-damaged.md), [file-truncated](file-truncated.md)

## How sure

It is judged from the rungs that `unstuck doctor` tries before there are workers: one sample, several samples, one
batch, the loader with num_workers=0; the first of them that failed; the exception with its place, the index that was
being loaded, and the files that were open or are named in it. It is certain: it was tried without a DataLoader, or
without its workers. The index is the one that was requested; the file is one that was opened for it or that the
exception names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure
from ...evidence.trial import FAIL, Rung, Trial
from ...report import root_of
from ...wording.printable import quoted
from ...wording.text import ending, said, short
from ..rule import Level, rule
from ._rungs import HANGS, ended_words, loader_of, symptom_of

TEXTS = ("stack expects each tensor to be equal size", "default_collate: batch must contain tensors, numpy arrays")

WITHOUT_WORKERS = ("sample", "samples", "collate", "no-workers")
FILES = 4  # that are named
PLAIN = ("uncaught-exception", "worker-python-exception")  # rules that know no more than the exception


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
    remedy, *alternatives = _options(trial, failed, root)
    yield case.finding(
        cause=_cause(trial, failed, root),
        seen=[*_seen(failed), *_of_root(root)],
        remedy=remedy,
        alternatives=alternatives,
        saw=said(failure) if failure is not None else root.saw if root is not None else "",
        where=place or (root.where if root is not None else None) or loader_of(trial).created,
        subject=_subject(failed) or (root.subject if root is not None else None),
        onset_s=root.onset_s if root is not None else None,
        symptom=symptom_of(failed),
    )


def _cause(trial: Trial, failed: Rung, root: Finding | None) -> str:
    what, failure = f"{_what(failed)} of {loader_of(trial).dataset or 'the dataset'}", failed.failure
    if failure is not None and failed.ended not in HANGS:
        return f"{what} raised {failure.type} in the main process: no worker is involved."
    if root is not None and root.rule not in PLAIN:
        return root.cause
    if failed.ended in HANGS:
        return f"{what} hangs in the main process, too: no worker is involved."
    if failed.exit:
        return f"{what} cannot be loaded: its process {ending(failed.exit)}, and no worker is involved."
    return f"{failed.reason[:1].upper()}{failed.reason[1:]}."


def _what(failed: Rung) -> str:
    """Which part of loading it is."""
    failure = failed.failure
    if failure is not None and failure.collating:
        return "Collating a batch"
    if failure is not None and failure.index is not None:
        return f"Sample {failure.index}"
    return "A sample" if failed.name in ("sample", "samples") else "A batch"


def _seen(failed: Rung) -> Iterator[str]:
    yield f"{failed.name} ({failed.title}): {ended_words(failed)}"
    if failed.ended in HANGS:
        yield failed.reason
    failure = failed.failure
    if failure is None:
        return
    place = user_line(failure)
    if place is not None:
        yield f"raised in {place.function} ({short(place)})"
    if failure.paths:
        yield f"files: {', '.join(failure.paths[:FILES])}"
    if failure.shapes:
        yield f"samples of the batch: {', '.join(failure.shapes[:6])}"


def _of_root(root: Finding | None) -> list[str]:
    """What a rule knows of it beyond the exception itself."""
    return [] if root is None or root.rule in PLAIN else root.seen


def _options(trial: Trial, failed: Rung, root: Finding | None) -> Iterator[Remedy]:
    commands = _commands(trial, failed.failure)
    again = [Remedy("Load only this sample, in one process: a debugger and print work there", commands)]
    if root is not None and root.rule != "uncaught-exception":
        yield root.remedy
        yield from root.alternatives[:2]
        yield from again if commands else ()
        return
    failure = failed.failure
    if failure is not None and failure.paths and not failure.collating:
        name = failure.paths[0].rpartition("/")[2]
        yield Remedy(f"Replace {name}, which was open at that moment, or exclude it from the dataset")
    elif failure is None and failed.exit and failed.ended == "itself":
        code = ["import faulthandler", "faulthandler.enable()"]
        yield Remedy("Load samples one by one in one process: faulthandler prints the line that crashes", code=code)
    elif failure is None and failed.ended == "itself":
        yield Remedy("Fix how the dataset finds its data: its list is empty, or its stream ends at once")
    elif failed.ended in HANGS:
        yield Remedy("Find what that line waits for (a file, a server, a lock), and give it a timeout")
    else:
        yield Remedy("Start at that line: in one process a debugger and print work")
    yield from again if commands else ()


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
