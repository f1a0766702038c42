"""One rank crashed first, and the other ranks failed because of it.

## It means

Ranks are connected to each other. When one ends, the others fail in their next collective, each with an error of its
own about the network, and mostly those are the errors people see: there are more of them, and they come last. They say
nothing about the cause, and neither does the summary of the launcher (ChildFailedError).

## Fix

Look at the first rank only: its exception, its exit status, its last lines of output. With torchrun, keep the output of
every rank in a file of its own, and let the exception of each rank be written down:

```sh
torchrun --nproc-per-node 8 --log-dir logs --redirects 3 train.py
```

```python
from torch.distributed.elastic.multiprocessing.errors import record

@record                      # torchrun then shows the traceback of the rank that failed first
def main():
    ...
```

Where native code crashed (SIGSEGV, SIGABRT), the fault handler prints the Python line:

```sh
PYTHONFAULTHANDLER=1 torchrun --nproc-per-node 8 train.py
```

## Check it yourself

```sh
grep -nE "Error|SIG|exitcode|Root Cause" train.log | head      # the earliest one without "closed by peer" counts
dmesg -T | grep -iE "oom|killed process"                       # the kernel killed it
```

## Not this, if

- the first rank exited with code 0: it ran out of data, see [ddp-uneven-batches](ddp-uneven-batches.md) and
  [rank-local-skip-desync](rank-local-skip-desync.md)
- the ranks timed out waiting: [collective-timeout](collective-timeout.md)
- one rank was stopped by a signal from outside: [rank-stopped](rank-stopped.md)
- every restart crashes in the same way: [restart-loop](restart-loop.md)

## How sure

Judged from how every rank ended, and when: its exception, its exit status, the line it was at. An exception in torch's
own words for a lost partner is an echo, and so are a collective that timed out afterwards, and SIGTERM from the
launcher. What remains is the first. Certain of how each rank ended. Which was first is certain where only one did not
fail by losing a partner; else it is the earliest. Silent where a rank exited with code 0 before the others: that is
another failure. For a CUDA error that is reported late, the line is only *likely*.

## Seen in

- https://github.com/pytorch/pytorch/issues/75512: "Connection closed by peer", because the other process had finished
- https://github.com/Megvii-BaseDetection/YOLOX/issues/702: only the echo was posted, and the cause stayed unknown
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import SIGKILL, Case, reached
from ...analysis.memory import told_of_kill
from ...analysis.passes import EMPTY, raised_after_nothing
from ...analysis.rank_deaths import ASKED, Cascade, Death, cascade, of_others
from ...analysis.torch_errors import again, late, warned, with_setting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.text import duration, line, said, short, signal_name, who
from ..rule import Level, rule

TEXTS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    "remote process exited or there was a network error",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
    "Root Cause (first observed failure):",
    "torch.multiprocessing.spawn.ProcessExitedException",
)
MOST = 8  # words of an exception in a cause


@rule(
    explains=Symptom.CRASHED,
    certainty=Certainty.CERTAIN,
    needs=("recording", "exits"),
    level=Level.ECHO,
    outranks=("uncaught-exception", "main-killed", "collective-timeout"),
    yields_to=(Symptom.CRASHED, Symptom.STUCK),
)
def check(case: Case) -> Iterator[Finding]:
    found = cascade(case)
    if found is None:
        return
    first = found.first
    process, failure = first.process, first.failure
    yield case.finding(
        process,
        cause=f"{_died(first)}. {_rest(found)}.",
        seen=list(_seen(case, found)),
        remedy=_remedy(case, first),
        onset_s=first.at,
        where=first.where,
        subject=Subject("sample", str(failure.index)) if failure is not None and failure.index is not None else None,
        certainty=Certainty.LIKELY.value if late(failure) is not None else "",
        because_of=EMPTY if raised_after_nothing(process, failure) is not None else None,
    )


def _name(first: Death) -> str:
    return f"rank {first.process.rank}" if first.process.rank is not None else who(first.process)


def _died(first: Death) -> str:
    name = _name(first)
    name = f"{name[:1].upper()}{name[1:]}"
    where = f" ({short(first.where)})" if first.where is not None else ""
    if first.failure is not None:
        delayed = late(first.failure) is not None
        words = said(first.failure, 200).split()
        most = MOST - 2 if delayed else MOST
        text = " ".join(words[:most]).rstrip(".,:;") + ("…" if len(words) > most else "")
        return f"{name} crashed first: {text}{where.replace('(', '(reported at ') if delayed else where}"
    if first.status is not None and first.status < 0:
        how = "was killed" if first.status == SIGKILL else "was stopped" if first.status in ASKED else "crashed"
        signal = f" ({signal_name(first.status)}{f', {short(first.where)}' if first.where is not None else ''})"
        return f"{name} {how} first{signal}"
    return f"{name} exited first, with code {first.status}"


def _rest(found: Cascade) -> str:
    count = len(found.others) + len(found.waiting)
    others = "The other rank" if count == 1 else "The other ranks"
    if found.waiting:
        return f"{others} still {'waits' if count == 1 else 'wait'} for it"
    return f"{others} failed because of it"


def _seen(case: Case, found: Cascade) -> Iterator[str]:
    first = found.first
    if first.failure is not None:
        at = f", at {line(first.where)} in {first.where.function}" if first.where is not None else ""
        yield f"{who(first.process)}: {said(first.failure)}{at}, after {duration(first.at)}"
        yield from warned(first.failure)
    else:
        yield f"{who(first.process)} ended after {duration(first.at)}, before the others: {first.words}"
    if first.failure is None and first.status == SIGKILL:
        yield from told_of_kill(case.host_of(first.process), first.process.pid, first.at)
    yield from of_others(found)
    newest = first.process.newest_loader
    if newest is not None:
        yield reached(newest)


def _remedy(case: Case, first: Death) -> Remedy:
    name, error = _name(first), late(first.failure)
    if error is not None:
        return again(case, error)
    if first.failure is not None:
        start = f" ({short(first.where)})" if first.where is not None else ""
        kind = first.failure.type.rpartition(".")[2]
        return Remedy(
            f"Fix the {kind} of {name} first{start}: the connection errors of the other ranks are consequences."
        )
    if first.status == SIGKILL or first.status in ASKED:
        sender = (
            f"Find what sent {signal_name(first.status or 0)} to {name}: the scheduler, a memory guard, or a person."
        )
        return Remedy(sender, ["dmesg -T | grep -iE 'oom|killed process'"] if first.status == SIGKILL else [])
    if first.status is not None and first.status < 0:
        handler = f"Run it again with the fault handler on: it prints the Python line at which {name} crashed."
        return Remedy(handler, [with_setting(case, "PYTHONFAULTHANDLER=1")])
    return Remedy(f"Read the last output of {name}: it called sys.exit or os._exit with code {first.status}.")
