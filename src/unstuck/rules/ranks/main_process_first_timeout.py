r"""The process group timed out while one rank, mostly rank 0, still did work the others waited for.

## It means

One rank downloads, tokenizes, evaluates or saves while the others wait for it, which is right. But every wait in a
process group has a timeout: 10 minutes with NCCL, 30 with gloo, unless the program says otherwise. When the work takes
longer, the waiting ranks fail, and the launcher stops the rank that was still working.

## Fix

Give the group more time than the work takes, where the group is made:

```python
TrainingArguments(ddp_timeout=3600)  # transformers
Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=datetime.timedelta(hours=1))])  # accelerate
Trainer(strategy=DDPStrategy(timeout=datetime.timedelta(hours=1)))  # Lightning
dist.init_process_group("nccl", timeout=datetime.timedelta(hours=1))
```

Or do the work before the training, in a script of its own, so no rank has to wait:

```sh
python prepare_data.py            # tokenizes once and saves with dataset.save_to_disk(...)
torchrun --nproc-per-node 8 train.py
```

## Check it yourself

The time to the failure is the timeout, to the second, and rank 0 is still busy:

```sh
grep -E "Timeout\(ms\)=|Timed out waiting" train.log
py-spy dump --pid PID_OF_RANK_0
```

## Not this, if

- the missing rank was idle or blocked: [collective-timeout](collective-timeout.md)
- the missing rank waits for a lock file: [hf-filelock](hf-filelock.md)
- ranks never met at all: [rendezvous-peer-missing](rendezvous-peer-missing.md)

## How sure

Judged from ranks that were ended by the timeout of their process group in a barrier, in accelerate's
`wait_for_everyone` or at the entry of `main_process_first`, and how long they had waited; and from the rank that was
missing: whether it was in a collective itself, how much CPU time it and its children used, what they read, what it
recorded, and whether it came later. Certain of the timeout, of which ranks waited and for how long. The other rank
counts as at work if it used half a CPU core, read a megabyte a second, recorded batches, stages or progress until the
end, was seen moving, or reached the barrier later. Inside `main_process_first` it counts unless it was seen blocked:
the program says itself that the others wait for this. A rank that shows none of this is not called busy: then the rule
is silent, and the timeout is reported without a cause. An endless loop looks like long work; a second run with more
time tells them apart. NCCL's words are known from its sources; they were not tried here.

## Seen in

- https://github.com/hiyouga/LlamaFactory/issues/2424: tokenization at 9 % after 30 minutes
- https://github.com/JIA-Lab-research/LongLoRA/issues/45: rank 0 prepares the dataset for more than 30 minutes
- https://github.com/huggingface/accelerate/issues/2528: the same with `accelerate launch`
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
from ._timeouts import raised
from ._waits import timed_out
from ._work import Work, work

TEXTS = (
    "Watchdog caught collective operation timeout: WorkNCCL",
    "is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store",
    "Timed out waiting",
    "for recv operation to complete",
)
BLOCKS = ("main_process_first", "local_main_process_first")
TRAINER = "/transformers/"
HOUR = 3600
QUEUED = 0.1  # of the time: what is worth a word
TIMES = 4  # the timeout that was too short: what is recommended where it is not known how long the work takes
OUTRANKED = ("collective-timeout", "rank-crash-cascade", "uncaught-exception", "main-killed", "straggler-rank")


class Struck(NamedTuple):
    """Ranks that waited until the timeout, the wait of the first, and the rank they waited for."""

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
        alternatives=[Remedy("Do that work beforehand in a script of its own, so no rank has to wait for it.")],
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
    """Ranks that neither timed out nor waited for others themselves. None, unless all ranks are known."""
    ranks = case.ranks
    if any(len(ranks) < (one.world or 0) for one in gave_up):
        return []
    return [one for one in ranks if one not in gave_up and not _waits(one, end)]


def _block(process: Process, end: float) -> Span | None:
    """Where the program itself says that the others wait for this rank."""
    spans = [one for one in process.spans if one.name in BLOCKS and one.at < end]
    return next((one for one in spans if one.ended is None or one.ended >= end), None)


def _waits(process: Process, end: float) -> bool:
    """It was in a collective itself when the others timed out."""
    spans = [one for one in process.spans if one.name in TOGETHER and one.at < end <= (one.ended or end)]
    return bool(spans) or any(not one.finished and one.at < end for one in process.collectives)


def _is_gone(case: Case, process: Process, end: float) -> bool:
    own = [one for one in deaths(case) if one.process.identity == process.identity]
    return any(one.how in (*BY_ITSELF, FINISHED) and one.at <= end for one in own)


def _came(process: Process, span: Span, end: float) -> float | None:
    """When it reached the same kind of wait, though too late."""
    return min((one.at for one in process.spans if one.name in TOGETHER and one.at >= end > span.at), default=None)


def _line(case: Case, found: Struck) -> Place | None:
    """Where it was at work: by its stack, if the wait was looked into, else by the block it was in."""
    stack = main_stack(case, found.busy.pid)
    seen = place(user_frame(stack.calls)) if stack is not None else None
    return seen or (found.block.where if found.block is not None else None) or found.span.where


def _cause(found: Struck) -> str:
    ranks = listed(sorted(one.process.rank or 0 for one in found.waited))
    still = "at work" if found.work.busy or found.block is None else f"inside {found.block.name}"
    there = "there" if found.span.name in still else f"in {found.span.name}"
    return f"Rank {found.busy.rank} was still {still} when {ranks} timed out {there} after {duration(found.seconds)}."


def _seen(found: Struck) -> Iterator[str]:
    failure = found.first.failure
    if failure is not None:
        yield f"{who(found.first.process)} waited {duration(found.first.at - found.span.at)}: {said(failure)}"
    used = found.work
    if used.seconds and not used.busy:
        yield f"{who(found.busy)} used hardly any CPU time: it slept, or waited for something outside the run"
    elif used.seconds:
        read = f" and read {size(used.read)}" if used.read > 1 << 20 else ""
        queued = f", waited {duration(used.queued)} for a core" if used.queued > QUEUED * used.seconds else ""
        yield (
            f"{who(found.busy)} used {duration(used.cpu)} of CPU time{queued}{read} in {duration(used.seconds)}, "
            "and was in no collective"
        )
    for one in found.busy.progress[:2]:
        need = f" of {one.need:,}" if one.need else ""
        yield f"{one.name}: {one.have:,}{need} {one.unit}".rstrip()
    if found.came is not None:
        yield f"rank {found.busy.rank} reached it {duration(found.came - found.first.at)} too late"
    group = found.first.process.group
    if group is not None and group.where is not None:
        yield f"the process group was made at {line(group.where)}"
    if len(found.waited) > 1:
        yield f"{many(len(found.waited), 'rank')} timed out; this one was the first"


def _remedy(found: Struck) -> Remedy:
    hours = ceil(_needed(found) / HOUR)
    group = found.first.process.group
    what = f"Give the process group more time than rank {found.busy.rank} needs."
    if not found.work.busy and found.came is None:
        what = f"Give the process group more time, if rank {found.busy.rank} is meant to take that long there."
    code = _line_to_write(found, hours)
    made = group.where if group is not None and "monitored" not in code else None
    at = f"  # {short(made)}" if made is not None else ""
    return Remedy(what, code=[f"{code}{at}"])


def _line_to_write(found: Struck, hours: int) -> str:
    process, failure = found.first.process, found.first.failure
    if failure is not None and any(TRAINER in one.file for one in failure.frames):
        return f"TrainingArguments(ddp_timeout={hours * HOUR})"
    if found.span.name == "monitored_barrier":
        return f"dist.monitored_barrier(timeout=datetime.timedelta(hours={hours}))"
    return raised(process, minutes=60 * hours)


def _needed(found: Struck) -> float:
    """Seconds: by the progress that was told, twice that to be safe; else a multiple of what did not suffice."""
    told = [one for one in found.busy.progress if one.need > one.have > 0]
    waited = found.first.at - found.span.at
    return max([2 * waited * one.need / one.have for one in told] or [TIMES * found.seconds])
