"""The port on which the ranks should meet is in use by another process.

## It means

Rank 0, or torchrun, opens a TCP port (`MASTER_PORT`, by default 29500) on which all ranks meet. Only one process of a
machine can listen on it. The other one is most often another training on the same machine, a run of yours that has not
ended yet, or this very script, started once more by each of its own ranks.

## Fix

On one machine, let torchrun choose a free port:

```sh
# before
torchrun --master-port 29500 --nproc-per-node 2 train.py

# after
torchrun --standalone --nproc-per-node 2 train.py
```

On several machines, or without torchrun, name another port, the same for all ranks:

```sh
MASTER_PORT=29611 python train.py
```

## Check it yourself

```sh
ss -ltnp 'sport = :29500'      # who listens there; without root, only processes of your own are named
```

## Not this, if

- the port is free, and the others do not come: [rendezvous-peer-missing](rendezvous-peer-missing.md)
- every start fails, and a launcher tries again and again: [restart-loop](restart-loop.md)

## How sure

Certain: the kernel refused to let a process listen (EADDRINUSE), in the exception that ended it. Which process has the
port is not recorded: the command under Fix shows it while that process lives. A script that catches the exception and
takes another port is left alone.

## Seen in

- https://github.com/meta-pytorch/torchtune/issues/392: two trainings at a time, with the default port
- https://github.com/pytorch/pytorch/issues/85604: a script under torchrun whose ranks listen once more
- https://github.com/vllm-project/vllm/issues/39015: port 29500, in torchrun itself
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...analysis.case import Case, is_users, user_line
from ...analysis.failures import ended_by
from ...analysis.torch_errors import with_setting
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Failure, Process
from ...wording.text import many, said
from ..rule import rule

TEXTS = (
    "The server socket has failed to listen on any local network address",
    "The server socket has failed to bind to",
    "EADDRINUSE",
    "errno: 98 - Address already in use",
)

REFUSED = re.compile(r"EADDRINUSE|errno: 98\b|Address already in use", re.IGNORECASE)
PORT = re.compile(r"port: (\d+)|failed to (?:bind|listen)[^\n]*?:(\d+) \(")
ANOTHER = 29_611  # any that is not the default, which other trainings have as well


@rule(explains=Symptom.CRASHED, certainty=Certainty.CERTAIN, needs=("recording",))
def check(case: Case) -> Iterator[Finding]:
    refused = [
        (process, failure)
        for process in case.recording or ()
        if (failure := ended_by(process)) is not None and REFUSED.search(failure.message) and _opens(failure)
    ]
    for process, failure in sorted(refused, key=lambda found: found[1].at)[:1]:
        port = _port(process, failure)
        yield case.finding(
            process,
            cause=f"Port {port} is in use by another process, so the ranks cannot meet on it."
            if port
            else "The port on which the ranks should meet is in use by another process.",
            seen=[*_seen(process, len(refused))],
            remedy=_chosen(case, port),
            alternatives=[
                Remedy(
                    "Find the process that has it: another training, or a run of yours that has not ended.",
                    [f"ss -ltnp 'sport = :{port}'" if port else "ss -ltnp"],
                )
            ],
            onset_s=failure.at,
            where=place if is_users(place := user_line(failure)) else None,
            subject=Subject("port", str(port)) if port else None,
            saw=said(failure),
        )


def _opens(failure: Failure) -> bool:
    """By torch, for its ranks: a server of the user's own may meet a port that is taken, too."""
    return any("torch/distributed/" in place.file for place in failure.frames) or "server socket" in failure.message


def _port(process: Process, failure: Failure) -> int | None:
    told = PORT.search(failure.message)
    if told is not None:
        return int(told[1] or told[2])
    address = process.group.address.rpartition(":")[2] if process.group is not None else ""
    return int(address) if address.isdecimal() else None


def _seen(process: Process, count: int) -> Iterator[str]:
    yield "the kernel refused to let it listen there (EADDRINUSE)"
    if process.group is not None and process.group.address:
        yield f"the ranks were to meet at {process.group.address}"
    if count > 1:
        yield f"{many(count, 'process')} of this run failed to listen; this one was first"


def _chosen(case: Case, port: int | None) -> Remedy:
    """In this run's own words: torchrun can choose by itself."""
    command = case.run.command
    if any(word.endswith("torchrun") or word == "torch.distributed.run" for word in command):
        return Remedy("On one machine, let torchrun choose a free port: --standalone instead of --master-port.")
    another = ANOTHER if port != ANOTHER else ANOTHER + 1
    return Remedy("Name another port, the same for all ranks.", [with_setting(case, f"MASTER_PORT={another}")])
