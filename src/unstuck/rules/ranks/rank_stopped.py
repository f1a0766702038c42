"""One rank was stopped by a signal from outside, and the other ranks failed because of it.

## It means

`kill` with the pid of one rank, a supervisor or a memory guard that picks the largest process, a batch system that
signals one task, a node that is drained. The training itself did nothing wrong: the other ranks lost their partner.

## Fix

Find what sent the signal, in the log of the node, not of the training. Then resume from the last checkpoint:

```sh
journalctl --since "1 hour ago" | grep -iE "oom|kill|terminat|drain"
sacct -j "$SLURM_JOB_ID" -o JobID,State,ExitCode,MaxRSS,Elapsed       # Slurm
kubectl describe pod POD                                              # Kubernetes: evicted, OOMKilled, preempted
```

## Check it yourself

torchrun names the first rank that failed, and its signal:

```sh
grep -nE "Root Cause|exitcode|Signal [0-9]+|SIG[A-Z]+|death signal" train.log
```

## Not this, if

- the launcher itself got the signal, so all ranks were stopped: [stopped-from-outside](stopped-from-outside.md)
- the rank was killed by SIGKILL or crashed in native code: [rank-crash-cascade](rank-crash-cascade.md)
- it was the kernel's OOM killer: [main-oom-killed](main-oom-killed.md)

## How sure

Judged from how every rank ended, when, and what the launcher says. A launcher stops ranks itself (SIGTERM), but only
after one of them has ended. So the first rank that a signal ended, while the launcher had received none and no rank had
failed, was stopped by something else. Certain where the launcher names the rank as the first to end, or where all
others lost their connection to it. Where ranks of other nodes are not recorded it is silent: their launcher may have
been stopped.

## Seen in

- https://github.com/pytorch/pytorch/pull/160908: torchrun's own signals hide which rank ended first
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.rank_deaths import PARTNER_GONE, cascade, of_others, told_alone
from ...analysis.stops import checkpoint, coverage, covered, standstill
from ...evidence.finding import Certainty, Finding, Remedy, Symptom
from ...wording.text import duration, said, signal_name, who
from ..rule import Level, rule


@rule(explains=Symptom.STOPPED, certainty=Certainty.CERTAIN, needs=("recording", "exits"), level=Level.CAUSE)
def check(case: Case) -> Iterator[Finding]:
    for first in told_alone(case):
        if standstill(case, first.at) is not None:  # it was stopped because it was stuck
            return
        process, saved, found = first.process, covered(case, first.at), cascade(case)
        name, signal = who(process), signal_name(first.status or 0)
        short = f"rank {process.rank}" if process.rank is not None else name
        others = len(found.others) + len(found.waiting) if found is not None else 0
        rest = "the other rank" if others == 1 else "the other ranks"
        lost = [one for one in found.others if one.how == PARTNER_GONE and one.failure] if found is not None else []
        yield case.finding(
            process,
            cause=f"{short[:1].upper()}{short[1:]} alone was stopped by {signal} after {duration(first.at)}"
            f"{f'; {rest} failed because of it' if others else ''}.",
            seen=[
                f"{name} was stopped by {signal} before any other rank ended and before the launcher got a signal",
                *(of_others(found) if found is not None else ()),
                *filter(None, [checkpoint(case, saved).removeprefix("; "), *coverage(case, saved)]),
            ],
            remedy=Remedy(
                f"Find what sent {signal} to {short}, in the log of its node: a supervisor, a memory guard or a person."
            ),
            alternatives=[] if saved is None else [Remedy(f"Resume from {saved.saved.path}.")],
            saw=said(lost[0].failure) if lost and lost[0].failure is not None else "",
            onset_s=first.at,
        )
