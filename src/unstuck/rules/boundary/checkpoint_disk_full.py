"""There is no room on the disk for the checkpoint, so that saving it fails and leaves half a file.

## What it looks at
Every call of torch.save, torch.distributed.checkpoint and safetensors that an exception left: the exception and what
led to it, and right afterwards the free bytes and files of that disk, the largest file that the process may write, and
how much of the checkpoint had come onto the disk. And exceptions of other writers that ended the training with the
system's own word for it.

## Why it happens
The disk, the user's quota, the number of files or the size of one file is limited, and checkpoints are large: a model
with Adam's state takes three times the size of its parameters. torch writes a file by native code, whose message does
not say "space": `[enforce fail at inline_container.cc] . unexpected pos` or `PytorchStreamWriter failed writing file`.
What had been written remains, under the very name a resumed run looks for.

## What to do
Make room, or save elsewhere; keep only the newest few checkpoints. Write to another name first and rename it when it is
complete, so that a file with the right name is always a whole one. Remove all remains before resuming.

## How sure it is
Sure where the system's error is known (no space, quota, file too large). Where torch hides it, it is concluded from the
disk as it was at that moment: full, or with less room than the checkpoint before had needed. Likely where numpy says
only that it wrote less than it was given. Else it stays silent. Half a file that is left of it is its consequence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...analysis.case import Case, user_line
from ...analysis.side_work import DISK, FILES, LIMIT, QUOTA, TEXTS, refused, says_why, usual_size, without_room
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure, Process, Saved
from ...wording.printable import quoted, quoted_line
from ...wording.text import duration, line, many, said, short, size, who
from ..rule import rule

SHOWN = 5  # remains, the newest ones


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",), outranks=("checkpoint-missing",))
def check(case: Case) -> Iterator[Finding]:
    tried = [(one, process) for process in case.mains for one in process.saved if one.failed]
    found = [(one, process, why) for one, process in tried if (why := refused(one, usual_size(process, one)))]
    for one, process, why in sorted(found, key=lambda found: found[0].at)[-1:]:
        if not _made_up_for(process, one):
            yield _of_save(case, process, _series(process, one), why)
            return
    yield from _of_others(case)


def _made_up_for(process: Process, failed: Saved) -> bool:
    """Something was saved afterwards, and nobody ended by this one."""
    later = any(one.at > failed.at and not one.failed for one in process.saved)
    return later and not _ended_by(process, failed)


def _series(process: Process, last: Saved) -> list[Saved]:
    """It and those before it that there was no room for either, since the same line saved one."""
    saved = [one for one in process.saved if not one.failed]
    since = max((one.at for one in saved if one.where == last.where and one.at < last.at), default=float("-inf"))
    again = {one.path: one.at for one in saved}  # a path that was saved to later holds no remains
    tries = [one for one in process.saved if one.failed and since < one.at < last.at]
    tries = [one for one in tries if again.get(one.path, 0.0) < one.at and refused(one, usual_size(process, one))]
    return [*tries, last]


def _ended_by(process: Process, failed: Saved) -> bool:
    """The exception that ended the process is the one that left the save."""
    failure, done = process.failure, failed.at + max(failed.seconds, failed.writing or 0.0)
    return failure is not None and failure.how == "uncaught" and failure.at >= done - 0.1 and _same(failure, failed)


def _same(failure: Failure, failed: Saved) -> bool:
    types = {failure.type, *(kind for kind, _ in failure.causes)}
    return failed.failed.partition(":")[0] in types


def _of_save(case: Case, process: Process, series: list[Saved], why: str) -> Finding:
    one, several = series[-1], len(series) > 1
    ended = _ended_by(process, one)
    which = f"The last {len(series)} checkpoints" if several else "The checkpoint"
    then = "ended by that" if ended else f"went on without {'them' if several else 'it'}"
    usual = usual_size(process, one)
    return case.finding(
        process,
        cause=f"{which} could not be saved, and the training {then}: {why}. {_where(process, one, several=several)}",
        seen=list(_seen(series, usual)),
        remedy=_remedy(series, why, usual),
        onset_s=series[0].at,
        where=one.where,
        subject=Subject("file", one.path),
        symptom=Symptom.CRASHED.value if ended else Symptom.WRONG.value,
    )


def _where(process: Process, one: Saved, *, several: bool) -> str:
    name, spot = who(process), f" at {short(one.where)}" if one.where is not None else ""
    came = f"; {size(one.size)} of it had been written" if one.size else ""
    return f"{name[:1].upper()}{name[1:]} was saving {one.path}{spot}{' when it failed last' if several else ''}{came}."


def _seen(series: list[Saved], usual: int | None) -> Iterator[str]:
    one = series[-1]
    yield one.failed + (f" (from {one.causes[-1]})" if one.causes else "")
    if one.free is not None and one.total:
        files = "" if one.files is None else f" and room for {many(one.files, 'file')}"
        yield f"right afterwards, {size(one.free)} of {size(one.total)}{files} were free on its disk"
    if one.limit is not None:
        yield f"the process may write files of at most {size(one.limit)} (ulimit -f)"
    if usual is not None:
        yield f"the one saved before from the same line had {size(usual)}"
    if len(series) > 1:
        first = f"the first {duration(one.at - series[0].at)} before the last"
        yield f"{many(len(series), 'save')} failed like that, {first}"
    left = _remains(series)
    if left:
        more = f", and {len(left) - SHOWN} before them" if len(left) > SHOWN else ""
        told = ", ".join(f"{size(each.size or 0)} at {each.path}" for each in left[-SHOWN:])
        yield f"what remains cannot be loaded: {told}{more}"


def _remains(series: list[Saved]) -> list[Saved]:
    """The newest of each path that is still there."""
    newest = {one.path: one for one in series if one.size is not None and one.there is not False}
    return list(newest.values())


def _remedy(series: list[Saved], why: str, usual: int | None) -> Remedy:
    folder = os.path.dirname(series[-1].path)
    least = f" At least {size(usual)} are needed for each checkpoint." if usual else ""
    room = {
        DISK: f"Make room on the disk of {folder}, or save to another one.{least}",
        FILES: f"Remove files from the disk of {folder}: it has bytes left, but no room for another file (df -i).",
        QUOTA: f"Remove files of yours from the disk of {folder}, or have the quota raised.{least}",
        LIMIT: "Raise the limit for the size of a file (ulimit -f) where the training is started.",
    }[why]
    keep = "Keep only the newest few checkpoints, and write each to another name first, then os.replace it."
    commands = [f"df -h {quoted(folder)}; df -i {quoted(folder)}"] if why != LIMIT else ["ulimit -f unlimited"]
    left = _remains(series)
    if not left:
        return Remedy(f"{room} {keep}", commands)
    rest = "of this one before you resume from it" if len(left) == 1 else f"of all {len(left)} before you resume"
    commands.append(f"rm {quoted_line(one.path for one in left[-SHOWN:])}")
    return Remedy(f"{room} {keep} Remove what remains {rest}.", commands)


def _of_others(case: Case) -> Iterator[Finding]:
    """Another writer, whose exception has the system's own words."""
    for process in case.mains:
        failure = process.failure
        if failure is None or failure.how != "uncaught" or not without_room(failure):
            continue
        place, path = user_line(failure), next(iter(failure.paths), "")
        spot = f" at {short(place)}" if place is not None else ""
        yield case.finding(
            process,
            cause=f"A file could not be written{spot}, and the training ended by that: {_word(failure)}.",
            seen=[said(failure) + (f", under {line(place)}" if place is not None else ""), *failure.paths[:2]],
            remedy=Remedy(
                f"Make room on the disk{f' of {os.path.dirname(path)}' if path else ''}, or write to another one. "
                "What had been written of the file is of no use: remove it.",
                [f"df -h {quoted(os.path.dirname(path))}; df -i {quoted(os.path.dirname(path))}"]
                if path
                else ["df -h; df -i"],
            ),
            onset_s=failure.at,
            where=place,
            subject=Subject("file", path) if path else None,
            certainty="" if says_why(failure) else Certainty.LIKELY.value,
        )
        return


def _word(failure: Failure) -> str:
    return QUOTA if TEXTS[1] in failure.message else DISK
