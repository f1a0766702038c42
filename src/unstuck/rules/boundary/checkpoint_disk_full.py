"""Saving a checkpoint failed because the disk is full, or a quota or the inodes are used up.

## It means
Checkpoints are large: with Adam's state a model takes three times the size of its parameters. The disk, the user's
quota, the number of files or the size of one file has a limit, and the save ran into it. torch writes the file in
native code, and its message does not say "space": `unexpected pos` and `PytorchStreamWriter failed writing file` are
what a full disk looks like. What was written so far stays, under the very name that a resumed run looks for; loading
it fails with `failed finding central directory`.

## Fix
Free space, or save to another disk. Then keep only the newest few checkpoints, and never write under the final name:

```python
torch.save(state, path)  # before: a failed save leaves a truncated file
```

```python
torch.save(state, path + ".tmp")  # after: a file called `path` is always whole
os.replace(path + ".tmp", path)
for old in sorted(folder.glob("*.pt"), key=os.path.getmtime)[:-3]:
    old.unlink()
```

## Check it yourself

```sh
df -h /path/to/checkpoints      # free bytes
df -i /path/to/checkpoints      # free inodes: a disk with bytes left can still refuse a new file
quota -s                        # your quota, where the system has quotas
ulimit -f                       # the largest file that this shell's programs may write
python -m zipfile -t epoch-03.pt   # fails for a truncated file of torch.save
```

## Not this, if
- it is /dev/shm that is full while workers start: [shm-full-at-start](shm-full-at-start.md)
- the message says "No space left on device" in a worker that sends a batch: [shm-exhausted](shm-exhausted.md)
- saving failed for another reason, or the file vanished later: [checkpoint-missing](checkpoint-missing.md)

## How sure
Judged from every call of torch.save, torch.distributed.checkpoint and safetensors that raised: the exception and its
causes, and right afterwards the free bytes and inodes of that disk, the file size limit of the process, and how much of
the checkpoint is on disk. Also from exceptions of other writers that crashed the training with the system's own words.
Certain where the system's error is known (no space, quota, file too large). Where torch hides it, it is concluded from
the disk at that moment: full, or with less room than the checkpoint before had needed. Likely where numpy says only
that it wrote less than it was given. Otherwise silent. A truncated file that is left is a consequence of this.

## Seen in
- https://github.com/pytorch/pytorch/issues/10577: torch.save failed with an unclear error on a full server disk
- https://github.com/hiyouga/LlamaFactory/issues/1223: PytorchStreamWriter failed writing file while saving weights
- https://github.com/verl-project/verl/issues/3346: "unexpected pos" at the end of a failed checkpoint
- https://github.com/YuanGongND/ast/issues/30: OSError 28, followed by torch's "unexpected pos"
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.side_work import DISK, FILES, LIMIT, QUOTA, refused, says_why, usual_size, without_room
from ...analysis.side_work import TEXTS as WORDS
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure, Process, Saved
from ...wording.printable import quoted, quoted_line
from ...wording.text import duration, line, many, said, size
from ..rule import rule

TEXTS = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "PytorchStreamWriter failed writing file",
    "[enforce fail at inline_container.cc",
    "unexpected pos",
    "basic_ios::clear: iostream error",
    "failed finding central directory",
)
SHOWN = 5  # truncated files, the newest


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("checkpoint-missing",))
def check(case: Case) -> Iterator[Finding]:
    tried = [(save, process) for process in case.mains for save in process.saved if save.failed]
    found = [(save, process, why) for save, process in tried if (why := refused(save, usual_size(process, save)))]
    for save, process, why in sorted(found, key=lambda found: found[0].at)[-1:]:
        if not _made_up_for(process, save):
            yield _of_save(case, process, _series(process, save), why)
            return
    yield from _of_others(case)


def _made_up_for(process: Process, failed: Saved) -> bool:
    """Whether a later save worked, and the failed one did not end the process."""
    later = any(save.at > failed.at and not save.failed for save in process.saved)
    return later and not _ended_by(process, failed)


def _series(process: Process, last: Saved) -> list[Saved]:
    """This save and those before it that there was no room for either, since the same line last saved a file."""
    saved = [save for save in process.saved if not save.failed]
    since = max((save.at for save in saved if save.where == last.where and save.at < last.at), default=float("-inf"))
    again = {save.path: save.at for save in saved}  # a path that was saved to later holds no truncated file
    tries = [save for save in process.saved if save.failed and since < save.at < last.at]
    tries = [save for save in tries if again.get(save.path, 0.0) < save.at and refused(save, usual_size(process, save))]
    return [*tries, last]


def _ended_by(process: Process, failed: Saved) -> bool:
    """Whether the exception that ended the process is the one that the save raised."""
    failure, done = process.failure, failed.at + max(failed.seconds, failed.writing or 0.0)
    return failure is not None and failure.how == "uncaught" and failure.at >= done - 0.1 and _same(failure, failed)


def _same(failure: Failure, failed: Saved) -> bool:
    types = {failure.type, *(kind for kind, _ in failure.causes)}
    return failed.failed.partition(":")[0] in types


def _of_save(case: Case, process: Process, series: list[Saved], why: str) -> Finding:
    last = series[-1]
    ended = _ended_by(process, last)
    usual = usual_size(process, last)
    left = _left(series)
    remedy, room = _remedy(last, why, usual), _whole_files()
    return case.finding(
        process,
        cause=_cause(series, why, ended=ended),
        seen=list(_seen(series, usual, ended=ended)) or [last.failed],
        remedy=remedy,
        alternatives=[room, _removal(left)] if left else [room],
        onset_s=series[0].at,
        where=last.where,
        subject=Subject("file", last.path),
        symptom=Symptom.CRASHED.value if ended else Symptom.WRONG.value,
        saw=last.failed.splitlines()[0] if ended else "",
    )


def _cause(series: list[Saved], why: str, *, ended: bool) -> str:
    last = series[-1]
    if len(series) > 1:
        then = "the run crashed" if ended else "training went on without them"
        return f"The last {len(series)} checkpoints could not be saved because {why}; {then}."
    came = f" after {size(last.size)}" if last.size else ""
    then = "the run crashed" if ended else "training went on without it"
    return f"Saving {os.path.basename(last.path)} failed{came} because {why}; {then}."


def _seen(series: list[Saved], usual: int | None, *, ended: bool) -> Iterator[str]:
    last = series[-1]
    if not ended:
        yield f"the save raised {last.failed.splitlines()[0]}"
    if last.causes:
        yield f"raised from {last.causes[-1]}"
    if last.free is not None and last.total:
        files = "" if last.files is None else f", {last.files:,} free inodes"
        yield f"its disk right afterwards: {size(last.free)} of {size(last.total)} free{files}"
    if last.limit is not None:
        yield f"largest file that the process may write: {size(last.limit)} (ulimit -f)"
    if usual is not None:
        yield f"the checkpoint before it, from the same line, has {size(usual)}"
    if len(series) > 1:
        first = f"the first {duration(last.at - series[0].at)} before the last"
        yield f"{many(len(series), 'save')} failed like this, {first}"
    left = _left(series)
    if left:
        more = f", and {len(left) - SHOWN} before them" if len(left) > SHOWN else ""
        told = ", ".join(f"{each.path} ({size(each.size or 0)})" for each in left[-SHOWN:])
        yield f"left on disk, probably truncated: {told}{more}"


def _left(series: list[Saved]) -> list[Saved]:
    """The newest save of each path that is still there."""
    newest = {save.path: save for save in series if save.size is not None and save.there is not False}
    return list(newest.values())


def _remedy(last: Saved, why: str, usual: int | None) -> Remedy:
    folder = os.path.dirname(last.path) or "."
    named = os.path.dirname(last.path) or "the working directory"
    least = f": a checkpoint needs {size(usual)}" if usual else ""
    return {
        DISK: Remedy(f"Free space on the disk of {named}, or save to another disk{least}", [f"df -h {quoted(folder)}"]),
        FILES: Remedy(
            f"Delete files from the disk of {named}: it has free bytes, but no inode for a new file",
            [f"df -i {quoted(folder)}"],
        ),
        QUOTA: Remedy(f"Free space in your quota for {named}, or have it raised{least}", ["quota -s"]),
        LIMIT: Remedy("Raise the file size limit in the shell that starts the training", ["ulimit -f unlimited"]),
    }[why]


def _whole_files() -> Remedy:
    return Remedy(
        "Write under a temporary name and rename, and keep only the newest few: a failed save then leaves no bad file",
        code=['torch.save(state, path + ".tmp")', 'os.replace(path + ".tmp", path)'],
    )


def _removal(left: list[Saved]) -> Remedy:
    alone = len(left) == 1
    what, they = ("the failed save", "it") if alone else (f"all {len(left)} failed saves", "they")
    shown = left[-SHOWN:]
    folders = any(save.how == "together" for save in shown)  # torch.distributed.checkpoint writes a folder
    checks = [f"{'ls -l' if save.how else 'python -m zipfile -t'} {quoted(save.path)}" for save in shown]
    removal = f"rm {'-ri' if folders else '-i'} {quoted_line(save.path for save in shown)}"
    return Remedy(
        f"Delete what is left of {what} before you resume, after a check that {they} cannot be loaded",
        [*checks, removal],
    )


def _of_others(case: Case) -> Iterator[Finding]:
    """Another writer, whose exception has the system's own words."""
    for process in case.mains:
        failure = process.failure
        if failure is None or failure.how != "uncaught" or not without_room(failure):
            continue
        place, path = user_line(failure), next(iter(failure.paths), "")
        folder = os.path.dirname(path) or "."
        raised = f"{failure.type} was raised" + (f" at {line(place)}" if place is not None else "")
        told = [f"the exception names {each}" for each in failure.paths[:2]]
        yield case.finding(
            process,
            cause=f"Writing {os.path.basename(path) or 'a file'} failed because {_word(failure)}; the run crashed.",
            seen=[raised, *told],
            remedy=Remedy(
                f"Free space on the disk{f' of {folder}' if path else ''}, or write to another disk",
                [f"df -h {quoted(folder)}", f"df -i {quoted(folder)}"] if path else ["df -h", "df -i"],
            ),
            alternatives=[Remedy("Write the file again afterwards: what is on disk of it is truncated")],
            onset_s=failure.at,
            where=place,
            subject=Subject("file", path) if path else None,
            certainty="" if says_why(failure) else Certainty.LIKELY.value,
            saw=said(failure),
        )
        return


def _word(failure: Failure) -> str:
    return QUOTA if WORDS[1] in failure.message else DISK
