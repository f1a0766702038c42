"""One rank did not reach a collective in time, and the others timed out.

## It means

This is how most hangs of several ranks end: one rank waits for data, does something that only it does, has left its
loop earlier, or has crashed. The others wait for as long as the process group's timeout allows (NCCL 10 minutes, gloo
30 minutes by default), and then they fail. Their tracebacks are those of innocent ranks.

## Fix

Find what kept the missing rank from the call: data that came late, a save, logging, a condition on the rank. Raise the
timeout only where that work is meant to take long, such as preprocessing or a large checkpoint:

```python
dist.init_process_group("nccl", timeout=datetime.timedelta(hours=1))

Trainer(strategy=DDPStrategy(timeout=datetime.timedelta(hours=1)))  # Lightning
TrainingArguments(ddp_timeout=3600)  # transformers
Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=datetime.timedelta(hours=1))])
```

## Check it yourself

In the log, compare `last enqueued work` and `last completed work` of all ranks: the rank that enqueued less is missing.
While it hangs, look at every rank:

```sh
grep -E "last enqueued|ran for [0-9]+ milliseconds" train.log
pgrep -f train.py | xargs -n 1 py-spy dump --pid       # one of them is not in a collective
```

## Not this, if

- a rank crashed before the others timed out: [rank-crash-cascade](rank-crash-cascade.md)
- one rank ran out of data: [ddp-uneven-batches](ddp-uneven-batches.md)
- only some ranks call the collective: [rank0-only-collective](rank0-only-collective.md)
- one rank was still downloading or tokenizing: [main-process-first-timeout](main-process-first-timeout.md)
- one rank waits for a sample: [silent-rank-data-stall](silent-rank-data-stall.md)

## How sure

Judged from the exception that ended a rank, in the words of gloo or of NCCL's watchdog. By default that watchdog raises
nothing in Python: it is a native thread that aborts the process (SIGABRT). So an abort by a thread that Python did not
start, of a rank that uses NCCL and made no progress for the group's timeout, is such an end. Where the other ranks
were is known from their stacks if the stall was long enough to be looked into, from their Flight Recorders, from how
they ended, and from what each was recorded to be doing. Certain of the timeout, where and after how long. The missing
rank is named if torch names it, if a stack or a Flight Recorder shows it, or if only one rank remains. Where another
rule has found the reason, this is its consequence. NCCL's words are known from its sources, its abort was tried on a
stand-in, never on a GPU.

## Seen in

- https://github.com/pytorch/pytorch/issues/118369: the watchdog aborts after 30 minutes in ALLREDUCE
- https://github.com/NVIDIA/Megatron-LM/issues/1207: ALLREDUCE of one element, which is a barrier or a metric
- https://github.com/hiyouga/LlamaFactory/issues/7396: ALLREDUCE of gradients; some ranks enqueued more than others
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ...analysis.case import Case
from ...analysis.ranks import listed
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import duration, line, said, short, who
from ..rule import Level, rule
from ._timeouts import raised
from ._waits import Absent, Wait, timed_out

TEXTS = (
    "Watchdog caught collective operation timeout: WorkNCCL",
    "milliseconds before timing out.",
    "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels",
    "To avoid data inconsistency, we are taking the entire process down.",
    "Exception (either an error or timeout) detected by watchdog at work",
    "last enqueued NCCL work",
    "Timed out waiting",
    "for recv operation to complete",
    "failed to pass monitoredBarrier in",
    "Application timeout caused pair closure",
)
ENDED = ("had finished", "had already ended")  # as an absent rank is described
LEAST = 30  # minutes of a timeout that is recommended


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
        alternatives=[_longer(found)],
        rank=suspect.rank if suspect is not None else None,
        pid=process.pid if suspect is not None else None,
        onset_s=first.at - (found.seconds or 0.0),
        where=where,
        subject=Subject("collective", found.call) if found.call else None,
    )


def _call(found: Wait) -> str:
    where = found.gave_up[0].where
    return (found.call or "a collective") + (f" ({short(where)})" if where is not None else "")


def _waited(found: Wait) -> str:
    ranks = [one.process.rank for one in found.gave_up if one.process.rank is not None]
    return listed(sorted(ranks)) if ranks else who(found.gave_up[0].process)


def _cause(found: Wait) -> str:
    limit = f" after {duration(found.seconds)}" if found.seconds else ""
    if found.sure and found.absent:
        absent = listed(sorted(one.rank for one in found.absent))
        return f"{absent.capitalize()} never reached {_call(found)}; {_waited(found)} timed out{limit}."
    return f"{_waited(found).capitalize()} timed out in {_call(found)}{limit}: another rank never reached it."


def _seen(found: Wait) -> Iterator[str]:
    for other in found.absent[:8]:
        since = f" since {duration(other.since)}" if other.since is not None else ""
        yield f"{_name(other)} {other.doing or 'left no sign of what it was doing'}{since}"
    for one in found.gave_up[:4]:
        if one.failure is not None:
            yield f"{who(one.process)}: {said(one.failure)}, at {line(one.where)}, after {duration(one.at)}"
        else:
            yield f"NCCL's watchdog thread aborted {who(one.process)} (SIGABRT) after {duration(one.at)}"
    group = found.gave_up[0].process.group
    if group is not None and group.timeout and group.where is not None:
        yield f"the timeout of {duration(group.timeout)} is set where the process group is made, at {line(group.where)}"


def _name(one: Absent) -> str:
    return who(one.process) if one.process is not None else f"rank {one.rank}"


def _remedy(found: Wait) -> Remedy:
    if not found.sure or not found.absent:
        return Remedy(f"Find the rank that never reached {_call(found)}: compare the last log lines of all ranks.")
    absent, where = listed(sorted(one.rank for one in found.absent)), found.absent[0].where
    spot = f", starting at {short(where)}" if where not in (None, found.gave_up[0].where) else ""
    if found.absent[0].doing.startswith(ENDED):
        return Remedy(f"Find why {absent} ended without {_call(found)}{spot}: fewer batches, or an early return.")
    kept = "slow data, a save, logging, or a condition on the rank"
    return Remedy(f"Find what kept {absent} from {_call(found)}{spot}: {kept}.")


def _longer(found: Wait) -> Remedy:
    minutes = max(LEAST, ceil(2 * (found.seconds or 0.0) / 60))
    code = raised(found.gave_up[0].process, minutes=minutes)
    return Remedy("Raise the timeout, only if that work is meant to take so long.", code=[code])
