"""The process group lost patience while one rank, mostly the first, was still at work that the others waited for.

## What it looks at
Ranks that were ended by the time-out of their process group in a barrier, in accelerate's `wait_for_everyone` or at the
entry of `main_process_first`, and how long they had waited. The rank that did not come: whether it was in a collective
itself, how much processor time it and its children used meanwhile, what they read, what it recorded, and whether it
came later.

## Why it happens
One rank downloads, tokenises, evaluates or saves while the others wait for it, which is right. But every wait in a
process group has a time-out: 10 minutes with NCCL, 30 with gloo, unless the program says otherwise. When the work takes
longer, the waiting ranks raise, and the launcher ends the rank that was still doing well.

## What to do
Give the group more time than the work takes, where the group is made. Or do the work before the training, in a script
of its own, so that nobody waits for it.

## How sure it is
Certain of the time-out, of who waited and for how long. The other rank counts as at work if it used half a processor,
read a megabyte a second, recorded batches, stages or progress until the end, was seen moving, or came to the barrier
later. Inside of `main_process_first` it counts unless it was seen blocked: the program says itself that the others wait
for this. A rank that shows none of this is not called busy: then the rule is silent, and the time-out is told without a
cause. A loop without end looks like long work; a second run with more time tells them apart. NCCL's words are known
from its sources; they were not tried here.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from ...analysis.case import Case
from ...analysis.rank_deaths import BY_ITSELF, FINISHED, Death, deaths
from ...analysis.ranks import TOGETHER, listed
from ...analysis.stacks import place, user_frame
from ...analysis.standstill import main_stack
from ...evidence.basics import Place
from ...evidence.distributed import Span
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.text import duration, line, many, said, short, size, who
from ..rule import rule
from ._waits import timed_out
from ._work import Work, work

BLOCKS = ("main_process_first", "local_main_process_first")
ACCELERATE = (*BLOCKS, "wait_for_everyone", "gather_for_metrics")
TRAINER = "/transformers/"
HOUR = 3600
QUEUED = 0.1  # of the time: what is worth a word
TIMES = 4  # the time-out that was too short: what is recommended where nobody knows how long the work takes
OUTRANKED = ("collective-timeout", "rank-crash-cascade", "uncaught-exception", "main-killed", "straggler-rank")


class Struck(NamedTuple):
    """Ranks that waited until the time-out, the wait of the first, and the one they waited for."""

    waited: list[Death]
    span: Span
    seconds: float
    busy: Process
    work: Work
    came: float | None  # when it got there after all
    block: Span | None  # in which it was to go first

    @property
    def first(self) -> Death:
        return self.waited[0]


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording", "exits"))
def check(case: Case) -> Iterator[Finding]:
    found = _struck(case)
    if found is None:
        return
    yield case.finding(
        found.busy,
        cause=_cause(found),
        seen=list(_seen(found)),
        remedy=_remedy(found),
        onset_s=found.span.at,
        where=_line(case, found),
        subject=Subject("collective", found.span.name),
    )


def _struck(case: Case) -> Struck | None:
    found = timed_out(case)
    span = _waited_in(found.gave_up[0]) if found is not None else None
    if found is None or span is None:
        return None
    end = found.gave_up[0].at
    busy = _absent(case, [one.process for one in found.gave_up], end)
    if not busy:
        return None
    works = [work(case, one, span.at, end) for one in busy]
    came = [_came(one, span, end) for one in busy]
    blocks = [_block(one, end) for one in busy]
    signs = [
        each.busy or later is not None or (inside is not None and not each.blocked)
        for each, later, inside in zip(works, came, blocks, strict=True)
    ]
    if not all(signs) or any(_is_gone(case, one, end) for one in busy):
        return None
    return Struck(found.gave_up, span, found.seconds or end - span.at, busy[0], works[0], came[0], blocks[0])


def _waited_in(death: Death) -> Span | None:
    """The outermost of the calls in which it waited for all, up to its end."""
    spans = [one for one in death.process.spans if one.name in (*TOGETHER, *BLOCKS)]
    return next((one for one in spans if one.failed or one.ended is None), None)


def _absent(case: Case, gave_up: list[Process], end: float) -> list[Process]:
    """Who was neither among those that gave up, nor waited for somebody itself. Nobody, unless all ranks are known."""
    ranks = case.ranks
    if any(len(ranks) < (one.world or 0) for one in gave_up):
        return []
    return [one for one in ranks if one not in gave_up and not _waits(one, end)]


def _block(process: Process, end: float) -> Span | None:
    """Where the program itself says that the others wait for this rank."""
    spans = [one for one in process.spans if one.name in BLOCKS and one.at < end]
    return next((one for one in spans if one.ended is None or one.ended >= end), None)


def _waits(process: Process, end: float) -> bool:
    """It was in a collective itself when the others gave up."""
    spans = [one for one in process.spans if one.name in TOGETHER and one.at < end <= (one.ended or end)]
    return bool(spans) or any(not one.finished and one.at < end for one in process.collectives)


def _is_gone(case: Case, process: Process, end: float) -> bool:
    own = [one for one in deaths(case) if one.process.identity == process.identity]
    return any(one.how in (*BY_ITSELF, FINISHED) and one.at <= end for one in own)


def _came(process: Process, span: Span, end: float) -> float | None:
    """When it came to the same kind of wait, though too late."""
    return min((one.at for one in process.spans if one.name in TOGETHER and one.at >= end > span.at), default=None)


def _line(case: Case, found: Struck) -> Place | None:
    """Where it was at work: by its stack, if the wait was looked into, else by the block it was in."""
    stack = main_stack(case, found.busy.pid)
    seen = place(user_frame(stack.calls)) if stack is not None else None
    return seen or (found.block.where if found.block is not None else None) or found.span.where


def _cause(found: Struck) -> str:
    ranks = listed(sorted(one.process.rank or 0 for one in found.waited))
    still = "at work" if found.work.busy or found.block is None else f"inside of {found.block.name}"
    return (
        f"Rank {found.busy.rank} was still {still} while {ranks} waited for it in {found.span.name} at "
        f"{short(found.span.where)}, and the process group's time-out of {duration(found.seconds)} ended the run."
    )


def _seen(found: Struck) -> Iterator[str]:
    failure = found.first.failure
    if failure is not None:
        yield f"{who(found.first.process)} waited {duration(found.first.at - found.span.at)}: {said(failure)}"
    used = found.work
    if used.seconds and not used.busy:
        yield f"{who(found.busy)} used hardly any processor time: it slept, or waited for something outside of the run"
    elif used.seconds:
        read = f" and read {size(used.read)}" if used.read > 1 << 20 else ""
        queued = f", was ready for {duration(used.queued)} more" if used.queued > QUEUED * used.seconds else ""
        yield (
            f"{who(found.busy)} used {duration(used.cpu)} of processor time{queued}{read} in {duration(used.seconds)} "
            "of that, and was in no collective"
        )
    for one in found.busy.progress[:2]:
        need = f" of {one.need:,}" if one.need else ""
        yield f"{one.name}: {one.have:,}{need} {one.unit}".rstrip()
    if found.came is not None:
        yield f"rank {found.busy.rank} came there {duration(found.came - found.first.at)} too late"
    group = found.first.process.group
    if group is not None and group.where is not None:
        yield f"the process group was made at {line(group.where)}"
    if len(found.waited) > 1:
        yield f"{many(len(found.waited), 'rank')} gave up; this one was the first"


def _remedy(found: Struck) -> Remedy:
    hours = ceil(_needed(found) / HOUR)
    more = f"timeout=datetime.timedelta(hours={hours})"
    group = found.first.process.group
    spot = f" at {short(group.where)}" if group is not None and group.where is not None else ""
    what = f"Give the group more time than rank {found.busy.rank} needs"
    if not found.work.busy and found.came is None:
        what = f"If what rank {found.busy.rank} does there is meant to take that long, give the group more time"
    before = "Or do that work beforehand, in a script of its own."
    return Remedy(f"{what}: {_where_to_say(found, more, spot, hours)}. {before}")


def _where_to_say(found: Struck, more: str, spot: str, hours: int) -> str:
    process, failure = found.first.process, found.first.failure
    if failure is not None and any(TRAINER in one.file for one in failure.frames):
        return f"TrainingArguments(ddp_timeout={hours * HOUR})"
    if found.span.name == "monitored_barrier":
        return f"monitored_barrier({more}) at {short(found.span.where)}"
    if process.prepared or any(one.name in ACCELERATE for one in process.spans):
        return f"Accelerator(kwargs_handlers=[accelerate.utils.InitProcessGroupKwargs({more})]){spot}"
    return f"init_process_group(…, {more}){spot}"


def _needed(found: Struck) -> float:
    """Seconds: by the progress that was told, twice that to be safe; else a multiple of what did not suffice."""
    told = [one for one in found.busy.progress if one.need > one.have > 0]
    waited = found.first.at - found.span.at
    return max([2 * waited * one.need / one.have for one in told] or [TIMES * found.seconds])
