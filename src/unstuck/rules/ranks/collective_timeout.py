"""A rank did not come to a collective in time, and the others gave up waiting.

## What it looks at
The exception that ended a rank, in the words of gloo ("Timed out waiting 8000ms for recv operation to complete",
"failed to pass monitoredBarrier") or of NCCL's watchdog ("Watchdog caught collective operation timeout"). By default
that watchdog raises nothing in Python: it is a native thread that aborts the process (SIGABRT). So an abort by a thread
that is none of Python's, of a rank that uses NCCL and made no progress for the group's timeout, is such an end. Then
where the other ranks were: by their stacks if the stall was long enough to be looked into, by their Flight Recorders,
by how they ended, and by what each was recorded to be doing.

## Why it happens
It is how most hangs of several ranks end: one waits for data, does something that only it does, has left its loop
earlier, or has died. The others wait for as long as the process group's time-out, and then they raise. Their
tracebacks are those of innocent ranks.

## What to do
Look at the rank that did not come, and at what it did instead. A longer time-out helps only where that is legitimate
and takes long: preprocessing, a large checkpoint.

## How sure it is
Certain of the time-out, where and after how long. Who did not come is told if torch names it, if a stack or a Flight
Recorder shows it, or if only one rank remains. Where another rule has found the reason, this is its consequence. NCCL's
words are known from its sources, its abort was tried on a stand-in, never on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.settings import in_words_of
from ...wording.text import duration, line, said, short, who
from ..rule import Level, rule
from ._waits import Absent, Wait, timed_out


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording",),
    level=Level.ECHO,
    outranks=("uncaught-exception", "main-killed"),
    yields_to=(Symptom.CRASHED, Symptom.STUCK, "straggler-rank"),
)
def check(case: Case) -> Iterator[Finding]:
    found = timed_out(case)
    if found is None:
        return
    first = found.gave_up[0]
    suspect = found.absent[0] if found.sure and found.absent else None
    process = suspect.process if suspect is not None and suspect.process is not None else first.process
    where = suspect.where if suspect is not None and suspect.where is not None else first.where
    yield case.finding(
        process,
        cause=_cause(found),
        seen=list(_seen(found)),
        remedy=_remedy(found),
        rank=suspect.rank if suspect is not None else None,
        pid=process.pid if suspect is not None else None,
        onset_s=first.at - (found.seconds or 0.0),
        where=where,
        subject=Subject("collective", found.call) if found.call else None,
    )


def _call(found: Wait) -> str:
    where = found.gave_up[0].where
    return (found.call or "a collective") + (f" at {short(where)}" if where is not None else "")


def _waited(found: Wait) -> str:
    ranks = [one.process.rank for one in found.gave_up if one.process.rank is not None]
    return listed(sorted(ranks)) if ranks else who(found.gave_up[0].process)


def _cause(found: Wait) -> str:
    limit = f" within {duration(found.seconds)}" if found.seconds else ""
    if found.sure and found.absent:
        absent = listed(sorted(one.rank for one in found.absent))
        doing = found.absent[0].doing if len(found.absent) == 1 else ""
        meanwhile = f"; {absent} {doing}" if doing else ""
        return f"{absent.capitalize()} did not come to {_call(found)}{limit}, and {_waited(found)} gave up{meanwhile}."
    return f"{_waited(found).capitalize()} gave up in {_call(found)}: another rank did not come{limit}."


def _seen(found: Wait) -> Iterator[str]:
    for one in found.gave_up[:4]:
        if one.failure is not None:
            yield f"{who(one.process)}: {said(one.failure)}, at {line(one.where)}, after {duration(one.at)}"
        else:
            yield f"NCCL's watchdog, a native thread, aborted {who(one.process)} (SIGABRT) after {duration(one.at)}"
    group = found.gave_up[0].process.group
    if group is not None and group.timeout and group.where is not None:
        yield f"the time-out of {duration(group.timeout)} comes from the group that was made at {line(group.where)}"
    for other in found.absent[:8]:
        yield f"{_name(other)} {other.doing or 'did what does not show'}"


def _name(one: Absent) -> str:
    return who(one.process) if one.process is not None else f"rank {one.rank}"


def _remedy(found: Wait) -> Remedy:
    who_then = "the rank that did not come"
    spot = ""
    if found.sure and found.absent:
        who_then = listed(sorted(one.rank for one in found.absent))
        where = found.absent[0].where
        spot = f", starting at {short(where)}" if where is not None else ""
    longer = "timeout=datetime.timedelta(minutes=30)"
    more = in_words_of(
        found.gave_up[0].process,
        f"init_process_group({longer})",
        lightning=f"Trainer(strategy=DDPStrategy({longer}))",
        transformers="TrainingArguments(ddp_timeout=1800)",
    )
    return Remedy(
        f"Look at what {who_then} did before {_call(found)}{spot}. Only if it is meant to take that long, give the "
        f"others more time: {more}."
    )
