"""The training goes on, and the newest checkpoint is not there: saving failed unnoticed, or the file is gone or cut.

## What it looks at
Every call of torch.save, torch.distributed.checkpoint and safetensors: whether an exception left it, also one that the
training's code caught; what was trained after it; and whether each of the newest files is on disk now, under its name
or, if it was renamed, beside it, as large as it was and with the end that such a file has.

## Why it happens
`except Exception: print(...)` around saving keeps a run alive that can never be resumed. A thread or a future that
saves in the background keeps its exception to itself until somebody asks for it. Code that keeps the last few
checkpoints and sorts them by name takes `step_1000` for older than `step_900`, and removes what it has just saved. Or
something else writes over it: another rank, a broken copy, code that took the wrong path.

## What to do
Let the first failure end the run, or at least be counted and told; ask every future for its result. Check after saving
that the file is there. Sort checkpoints by number or by time.

## How sure it is
Certain that the save failed and that nothing was saved since, or that the file has no end, or is no such file any more
and smaller than it was (one that somebody packed is left alone). That a file is gone counts only if earlier ones from
the same line are still where they were saved, and the run has no validation by whose result checkpoints might be
chosen. A run that stops saving may save only what is best: that alone says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.side_work import last_trained
from ...evidence.epochs import VALIDATION
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process, Saved
from ...wording.text import duration, line, many, short, size, who
from ..rule import rule

EARLIER = 2  # files of the same line that are where they were saved: so they are not moved elsewhere as a rule
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
    told = f"the newest that was saved is {whole[-1].path}" if whole else "none was ever saved"
    seen = [
        f"{last.failed.rstrip('.')}, raised by saving {last.path}" + (f" at {line(last.where)}" if last.where else ""),
        f"{many(len(since), 'attempt')} failed, and the exception was kept from the training each time; {told}",
        f"training went on until {duration(max(last_trained(process) - since[0].at, 0.0))} after the first of them",
    ]
    quietly = (
        "in the background, where nobody asked for its result" if last.background else "and its exception was caught"
    )
    return _finding(
        case,
        process,
        last,
        since[0].at,
        f"No checkpoint is being saved: saving {last.path} failed{_at(last)}, {quietly}, and the training went on. "
        f"{last.failed.splitlines()[0][:200]}",
        seen,
        Remedy(
            f"Mend what the exception says{_hint(last)}, and save once before the first step, so that it shows at "
            f"once. {_louder(last)}"
        ),
    )


def _went_on(process: Process, failed: Saved, *, in_order: bool) -> bool:
    """By steps or batches, or until it came to its own end; not so the process that ended by this very exception."""
    failure = process.failure
    if failure is not None and failure.how == "uncaught":
        return False
    loader = process.newest_loader
    far = last_trained(process) > failed.at + failed.seconds and loader is not None and loader.batches >= STEPS
    return far or (in_order and process.ended is not None)


def _hint(failed: Saved) -> str:
    if "Parent directory" in failed.failed and "does not exist" in failed.failed:
        return " (os.makedirs(os.path.dirname(path), exist_ok=True) before saving)"
    if "pickle" in failed.failed:
        return " (save state_dicts and plain values: an object with a lambda, a lock or an open file cannot be pickled)"
    return ""


def _louder(failed: Saved) -> str:
    if failed.background:
        return "Keep the future or thread, and ask it for its result before the next checkpoint."
    return f"Let the exception through at {short(failed.where)}." if failed.where else "Let the exception through."


def _cut(case: Case, process: Process) -> Finding | None:
    """The newest file is there, and not all of it."""
    newest = _newest(process)
    if newest is None or newest.whole is not False or not newest.size or _being_written(process, newest):
        return None
    series = _trailing(process)
    before = [f"{many(len(series) - 1, 'checkpoint')} saved before it cannot be loaded either"]
    return _finding(
        case,
        process,
        newest,
        series[0].at,
        f"The newest checkpoint cannot be loaded: {newest.path} {_left(newest)} it had when it was saved{_at(newest)}.",
        [
            f"saved with {size(newest.size or 0)} in {duration(newest.seconds or newest.writing or 0.0)}",
            f"now it has {size(newest.size_now or 0)}, and not the directory that a file of torch.save ends with",
            *(before if len(series) > 1 else []),
        ],
        Remedy(
            "Something else wrote to that file afterwards: code that took this path for another, another rank that "
            "saves under the same name, a copy, a synchronisation. Let only rank 0 save, write to another name first "
            "and os.replace it, and check what remains with torch.load before you rely on it."
        ),
    )


def _trailing(process: Process) -> list[Saved]:
    """Those that are not whole, since the newest that is."""
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
        f"The newest checkpoint is not on disk: {newest.path} was saved{_at(newest)} and is gone, while older ones are "
        f"still there. The newest that is there is {there[-1].path}.",
        [
            f"{many(len(gone), 'checkpoint')} saved after {there[-1].path} {'is' if len(gone) == 1 else 'are'} gone",
            f"{newest.path} had {size(newest.size or 0)} right after it was saved",
            f"no validation by whose result it might have been dropped was seen in {who(process)}",
        ],
        Remedy(
            "Look at what removes old checkpoints: sorted by name, step_1000 comes before step_900, so that the newest "
            "is taken for the oldest. Sort by number or by time (key=os.path.getmtime), and never remove the file just "
            "saved."
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
    case: Case, process: Process, one: Saved, since: float, cause: str, seen: list[str], remedy: Remedy
) -> Finding:
    return case.finding(
        process,
        cause=cause,
        seen=seen,
        remedy=remedy,
        onset_s=since,
        where=one.where,
        subject=Subject("file", one.path),
    )
