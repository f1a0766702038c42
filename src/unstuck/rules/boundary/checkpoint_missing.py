"""Training has no usable checkpoint: saving failed silently, or the newest file is gone or truncated.

## It means
`except Exception: print(...)` around saving keeps a run alive that can never be resumed. A thread or a future that
saves in the background keeps its exception to itself until its result is read. Code that keeps the last few checkpoints
and sorts them by name takes `step_1000` for older than `step_900`, and deletes what it has just saved. Or something
else writes over the file: another rank, a broken copy, code that took the wrong path.

## Fix
Let the first failure stop the run, and read the result of every background save:

```python
os.makedirs(folder, exist_ok=True)
future = executor.submit(torch.save, state, path)
...
future.result()  # before the next save: raises what torch.save raised
```

Write on one rank only, under a temporary name, and sort by time before you delete:

```python
if torch.distributed.get_rank() == 0:
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)
    for old in sorted(folder.glob("*.pt"), key=os.path.getmtime)[:-3]:
        old.unlink()
```

## Check it yourself

```sh
ls -lt /path/to/checkpoints | head           # is the newest file there, and as large as the others?
python -m zipfile -t /path/to/newest.pt      # fails for a truncated file of torch.save
```

## Not this, if
- saving failed because the disk or the quota is full: [checkpoint-disk-full](checkpoint-disk-full.md)
- the run keeps only the best checkpoint by a validation result: nothing is missing
- the exception ended the run: [uncaught-exception](uncaught-exception.md)

## How sure
Judged from every call of torch.save, torch.distributed.checkpoint and safetensors: whether it raised, also where the
training's code caught that; what was trained afterwards; and whether each of the newest files is on disk now, under its
name or renamed next to it, as large as it was and with the end that such a file has. Certain that the save failed and
that nothing was saved since, or that the file has no end, or is no such file any more and smaller than it was (a file
that was repacked is left alone). A missing file counts only if earlier files from the same line are still where they
were saved, and the run has no validation by whose result checkpoints might be chosen. A run that stops saving may save
only what is best: that alone says nothing.

## Seen in
- https://github.com/allenai/open-instruct/issues/542: sorted as strings, `step_9000` came after `step_10000`
- https://github.com/deepset-ai/FARM/pull/282: recent checkpoints could be deleted because of the sorting order
- https://github.com/huggingface/transformers/pull/37260: a new run in an old folder deleted its newest checkpoint
- https://github.com/karpathy/nanochat/issues/315: saving on ranks other than 0 needs the folder, too
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.side_work import last_trained
from ...evidence.epochs import VALIDATION
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process, Saved
from ...wording.printable import quoted
from ...wording.text import duration, line, many, short, size, who
from ..rule import rule

TEXTS = ("RuntimeError: Parent directory", "failed finding central directory")
EARLIER = 2  # files of the same line that are where they were saved: then they are not moved elsewhere as a rule
SETTLED = 5.0  # seconds after which a live run has renamed or moved what it saved
STEPS = 3  # after a failure: fewer may be what is left of a loop that is being ended because of it


@rule(explains=Symptom.WRONG, certainty=Certainty.LIKELY, needs=("recording",), yields_to=(Symptom.CRASHED,))
def check(case: Case) -> Iterator[Finding]:
    in_order = case.run.status in (0, None)
    for process in case.mains:
        yield from [
            one
            for one in (_unsaved(case, process, in_order=in_order), _cut(case, process), _gone(case, process))
            if one is not None
        ][:1]


def _unsaved(case: Case, process: Process, *, in_order: bool) -> Finding | None:
    """The newest attempt failed, and training went on."""
    tries = sorted(process.saved, key=lambda one: one.at)
    failed, whole = [one for one in tries if one.failed], [one for one in tries if not one.failed]
    if not failed or tries[-1] is not failed[-1] or not _went_on(process, failed[-1], in_order=in_order):
        return None
    last = failed[-1]
    since = [one for one in failed if not whole or one.at > whole[-1].at]
    if whole and len(since) == 1 and not any(one.where == last.where for one in whole):
        return None  # a copy that is saved as well, by another line, each time after the one that counts
    return _never_saved(case, process, last, since, whole)


def _never_saved(case: Case, process: Process, last: Saved, since: list[Saved], whole: list[Saved]) -> Finding:
    told = f"; the newest saved checkpoint is {whole[-1].path}" if whole else ""
    saves = f"{'background ' if last.background else ''}save"
    failed = f"all {len(since)} {saves}s" if len(since) > 1 else f"the {saves}"
    if whole:
        failed = failed.replace("all", "the last")
    swallowed = "the exception was never read" if last.background else "the exception was caught"
    missing = f"No checkpoint since {os.path.basename(whole[-1].path)}" if whole else "No checkpoint has been saved"
    return _finding(
        case,
        process,
        last,
        since[0].at,
        f"{missing}: {failed} failed and {swallowed}.",
        [
            f"saving {last.path} raised {last.failed.splitlines()[0][:200].rstrip('.')}"
            + (f", at {line(last.where)}" if last.where else ""),
            f"{many(len(since), 'save')} failed{told}",
            f"training went on for {duration(max(last_trained(process) - since[0].at, 0.0))} after the first failure",
        ],
        _hint(last),
        _louder(last),
    )


def _went_on(process: Process, failed: Saved, *, in_order: bool) -> bool:
    """By steps or batches, or until it came to its own end; not so the process that ended by this very exception."""
    failure = process.failure
    if failure is not None and failure.how == "uncaught":
        return False
    loader = process.newest_loader
    far = last_trained(process) > failed.at + failed.seconds and loader is not None and loader.batches >= STEPS
    return far or (in_order and process.ended is not None)


def _hint(failed: Saved) -> Remedy:
    if "Parent directory" in failed.failed and "does not exist" in failed.failed:
        return Remedy(
            "Create the folder before the first save", code=["os.makedirs(os.path.dirname(path), exist_ok=True)"]
        )
    if "pickle" in failed.failed:
        return Remedy(
            "Save state_dicts and plain values: an object with a lambda, a lock or an open file cannot be pickled",
            code=['torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)'],
        )
    return Remedy("Fix what the exception says, and save once before the first step to see that it works")


def _louder(failed: Saved) -> Remedy:
    if failed.background:
        return Remedy(
            "Read the result of every background save before the next: it raises what the save raised",
            code=["future = executor.submit(torch.save, state, path)", "future.result()  # before the next save"],
        )
    return Remedy(f"Let the exception through{_at(failed)}: a run that cannot be resumed should stop")


def _cut(case: Case, process: Process) -> Finding | None:
    """The newest file is there, and not all of it."""
    newest = _newest(process)
    if newest is None or newest.whole is not False or not newest.size or _being_written(process, newest):
        return None
    series = _trailing(process)
    before = [f"{many(len(series) - 1, 'checkpoint')} saved before it cannot be loaded either"]
    ranks = (process.world or 1) > 1
    return _finding(
        case,
        process,
        newest,
        series[0].at,
        f"The newest checkpoint, {os.path.basename(newest.path)}, is truncated: something wrote to it afterwards.",
        [
            f"{newest.path} {_left(newest)} it had when it was saved",
            f"saved with {size(newest.size or 0)} in {duration(newest.seconds or newest.writing or 0.0)}",
            "the directory at its end, which a file of torch.save needs, is missing",
            *(before if len(series) > 1 else []),
        ],
        Remedy("Find what else writes to that path: another rank, a copy, a sync job, a second run"),
        Remedy(
            f"Save {'on rank 0 only, and ' if ranks else ''}under a temporary name, then rename",
            code=[
                *(["if torch.distributed.get_rank() == 0:"] if ranks else []),
                f'{"    " if ranks else ""}torch.save(state, path + ".tmp")',
                f'{"    " if ranks else ""}os.replace(path + ".tmp", path)',
            ],
        ),
        Remedy("Check a checkpoint before you rely on it", [f"python -m zipfile -t {quoted(newest.path)}"]),
    )


def _trailing(process: Process) -> list[Saved]:
    """The truncated ones since the newest that is whole."""
    done = [one for one in process.saved if not one.failed and one.inode and one.whole is not None]
    whole = [number for number, one in enumerate(done) if one.whole]
    return done[whole[-1] + 1 if whole else 0 :]


def _left(one: Saved) -> str:
    if not one.size_now:
        return f"is empty, without the {size(one.size or 0)}"
    if one.size is None or one.size_now >= one.size:
        return "lacks the end"
    return f"has only {one.size_now:,} of the {one.size:,} bytes"


def _gone(case: Case, process: Process) -> Finding | None:
    """The newest file is not there, and those saved before are."""
    newest = _newest(process)
    if newest is None or newest.there is not False or _chooses(process) or _being_written(process, newest):
        return None
    same = [one for one in process.saved if one.where == newest.where and one.path != newest.path and not one.failed]
    there = [one for one in same if one.there and one.inode]
    if len({one.path for one in there}) < EARLIER:
        return None
    gone = [one for one in [*same, newest] if one.there is False and one.at > there[-1].at]
    return _finding(
        case,
        process,
        newest,
        gone[0].at,
        f"The newest checkpoint, {os.path.basename(newest.path)}, is gone from disk, while older ones are still there.",
        [
            f"{many(len(gone), 'checkpoint')} saved after {there[-1].path} {'is' if len(gone) == 1 else 'are'} gone",
            f"{newest.path} had {size(newest.size or 0)} right after it was saved",
            f"{who(process)} runs no validation by whose result it might have been dropped",
        ],
        Remedy(
            "Sort checkpoints by time before deleting old ones: by name, step_1000 comes before step_900",
            code=[
                'for old in sorted(folder.glob("*.pt"), key=os.path.getmtime)[:-3]:',
                "    old.unlink()",
            ],
        ),
        Remedy(
            "Find what else deletes files there: a cleanup job, a second run in the same folder",
            [f"ls -lt {quoted(os.path.dirname(newest.path) or '.')}"],
        ),
    )


def _newest(process: Process) -> Saved | None:
    done = [one for one in process.saved if not one.failed and one.inode]
    return done[-1] if done else None


def _being_written(process: Process, one: Saved) -> bool:
    """By this process, or just now: it may be on its way to another name."""
    just = process.alive and process.last_sign - (one.at + max(one.seconds, one.writing or 0.0)) < SETTLED
    return just or any(each.path == one.path for each in process.saving)


def _chooses(process: Process) -> bool:
    """It validates: checkpoints may be chosen by the result."""
    return (
        any(one.kind == VALIDATION for one in process.phases)
        or any(loader.batches and not loader.optimizer_steps for loader in process.loaders)
        or not process.optimizer_steps
    )


def _at(one: Saved) -> str:
    return f" at {short(one.where)}" if one.where is not None else ""


def _finding(
    case: Case, process: Process, save: Saved, since: float, cause: str, seen: list[str], *remedies: Remedy
) -> Finding:
    return case.finding(
        process,
        cause=cause,
        seen=seen,
        remedy=remedies[0],
        alternatives=remedies[1:],
        onset_s=since,
        where=save.where,
        subject=Subject("file", save.path),
    )
