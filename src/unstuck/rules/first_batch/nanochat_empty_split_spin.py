"""The loader goes round and round over an empty list of files: it uses a whole core, reads nothing, and gives no batch.

## What it looks at
The line at which a main process or a worker computes, at two looks: whether it is inside a loop without an end whose
inner loop goes over something empty, by the program's source and by the value that the name has there. Then what moved
meanwhile: whether anything was read or written, whether memory grew; in a recorded run, also the documents and tokens.

## Why it happens
A split leaves nothing for training: of all shards the last is held out for validation, and there is only one; a
pattern that matches no file; a position to resume from that lies behind the last file. Around it stands `while True`,
so that the data never ends, and it never begins either. From afar it looks like a tokenizer at work: processor at full
load, GPU idle, no batch.

## What to do
Have at least as many files as the split needs, and let the loader fail when its list is empty.

## How sure it is
Certain where the empty list is seen, and where the inner loop's variable has no value, so that it was never entered.
Where neither can be had, as over the result of a call, the rule waits for a minute in which nothing was read, nothing
grew, and no batch ever came.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.first_batch import gave_batches, so_far
from ...analysis.stacks import SCANNING, doing, place, user_frame
from ...analysis.standstill import computes, earlier, main_stack, recorded, standing
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.live import Frame, Seen, Stack
from ...wording.text import duration, percent, short, who
from ..rule import Level, rule

EMPTY = ("[]", "()", "{}", "set()", "0")  # as a value is written; else the loop's own variable shows it
GROWN = 1 << 18  # bytes: what an interpreter may take for itself in a second; a buffer that fills takes more
A_MINUTE = 60.0  # seconds, where the value is not known: longer than most computations that read nothing


@rule(explains=Symptom.STUCK, certainty=Certainty.CERTAIN, needs=("processes", "stacks"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for seen in case.processes or ():
        stack = main_stack(case, seen.pid)
        if stack is None or seen.role not in ("main", "worker", "child") or not _spins(seen):
            continue
        frame, before = _frame(stack), _frame(earlier(stack))
        if frame is None or before is None or frame.name != before.name or not frame.loops or not before.loops:
            continue
        empty = _empty(case, seen, frame)
        if empty or _long_enough(case, seen, stack):
            yield _found(case, seen, frame, empty)
            return


def _spins(seen: Seen) -> bool:
    still = not seen.read and not seen.written and seen.anonymous_grown <= GROWN
    return still and computes(seen.main_task, seen.looked)


def _frame(stack: Stack) -> Frame | None:
    """The innermost call, if it is the user's own: what computes below it does something. Looking for files is none."""
    calls = stack.calls
    if doing(stack) == SCANNING:
        return user_frame(calls)
    return calls[0] if calls and user_frame(calls[:1]) is not None else None


def _empty(case: Case, seen: Seen, frame: Frame) -> dict[str, str]:
    """What is gone over and certainly empty: by its value, or as the loader's dataset has it."""
    found = {name: value for name, value in frame.loops.items() if value}
    process = recorded(case, seen)
    owner = case.owner_of(process.node, process.pid) if process is not None else None
    loaders = [owner.loader] if owner is not None else process.loaders if process is not None else []
    for name in frame.loops:
        told = [one.attributes.get(name.removeprefix("self.")) for one in loaders if name.startswith("self.")]
        if told and all(str(one) in ("list of 0", "tuple of 0", "dict of 0") for one in told):
            found[name] = "[]"
    return found


def _long_enough(case: Case, seen: Seen, stack: Stack) -> bool:
    process = recorded(case, seen)
    if process is None or case.stall is None or process.optimizer_steps:
        return False
    return not gave_batches(process) and standing(case, seen, stack) >= A_MINUTE


def _found(case: Case, seen: Seen, frame: Frame, empty: dict[str, str]) -> Finding:
    where = place(frame)
    names = ", ".join(empty or frame.loops)
    subject = next(iter(empty or frame.loops))
    known = "is empty" if set(empty.values()) <= set(EMPTY) else "gives it nothing"
    what = f"{names} {known}" if empty else f"{names} seems to be empty"
    name = who(seen)[:1].upper() + who(seen)[1:]
    return case.finding(
        seen,
        cause=f"{name} goes round without an end at {short(where)} ({frame.name}): {what}, so that nothing is read and "
        "no batch ever comes. It is not tokenising.",
        seen=list(_seen(case, seen, frame, empty)),
        remedy=Remedy(
            f"Give {subject} something to go over: at least two shards where the last one is held out for validation, "
            f"a pattern that matches, a position to resume from that exists. And let {frame.name} fail otherwise: "
            f"`assert {subject}, 'no files for this split'` before the loop.",
            [f"py-spy dump --pid {seen.pid} --locals"],
        ),
        onset_s=case.stall.since if case.stall is not None else None,
        where=where,
        subject=Subject("variable", subject),
    )


def _seen(case: Case, seen: Seen, frame: Frame, empty: dict[str, str]) -> Iterator[str]:
    for name, value in empty.items():
        how = f"{name} = {value} in" if value in EMPTY else f"the loop over {name} was never entered in"
        yield f"{how} {frame.name}, which goes over it again and again"
    share = seen.main_task.cpu / max(seen.looked, 0.1)
    queued = seen.main_task.queued / max(seen.looked, 0.1)
    waits = f" and waited for one another {percent(queued)}" if queued > 0.05 else ""
    yield (
        f"in the {duration(seen.looked)} it was looked at, pid {seen.pid} used {percent(share)} of a processor{waits}, "
        f"read and wrote nothing, and grew by {max(seen.anonymous_grown, 0)} bytes"
    )
    process = recorded(case, seen)
    if process is not None:
        yield so_far(case, process)
