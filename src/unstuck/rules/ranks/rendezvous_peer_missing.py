r"""Not all ranks have joined: those that started wait in init_process_group for the rest.

## It means

`WORLD_SIZE` or `world_size=` is larger than the number of processes that were started; a second node was never
launched; `MASTER_ADDR` or `MASTER_PORT` differ between the ranks, or a firewall is between them; a rank crashed while
it was importing. torch waits silently for up to 30 minutes (10 with NCCL).

## Fix

Start all ranks with one launcher, which sets the world size itself:

```sh
torchrun --standalone --nproc-per-node 2 train.py                              # one machine

torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d \
         --rdzv-endpoint node0:29500 train.py                                  # the same line on both nodes
```

With `mp.spawn` the two numbers have to be the same:

```python
mp.spawn(main, nprocs=world_size, args=(world_size,))
```

A short timeout makes the failure visible early. It also holds for every collective after that:

```python
dist.init_process_group("nccl", timeout=datetime.timedelta(minutes=2))
```

## Check it yourself

```sh
env | grep -E "^(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT)="        # on every node
pgrep -fa train.py                                                            # fewer processes than the world size?
nc -vz "$MASTER_ADDR" "$MASTER_PORT"                                          # from the other node
```

Read the log of the missing rank: it may have crashed at import.

## Not this, if

- all ranks have met, and one is missing later: [collective-timeout](collective-timeout.md)
- the others wait for rank 0's preprocessing: [main-process-first-timeout](main-process-first-timeout.md)
- a rank was recorded and crashed: [rank-crash-cascade](rank-crash-cascade.md)

## How sure

Judged from a rank that is in `init_process_group` without using the CPU, and how many ranks there are: those that are
recorded and those that a look at the processes shows, against the world size it was given. Or from the exception with
which it timed out. Or from a `torchrun` that waits for other machines for over a minute. Certain where torch has
counted. In a run that makes no progress it counts processes: any that could be a rank and is still importing makes it
silent. Ranks on other machines may start minutes later: that is reported as *waiting*, after a minute. A rank that was
recorded and crashed is the cause itself, and this its consequence.

## Seen in

- https://github.com/pytorch/pytorch/pull/111805: where "1/2 clients joined" comes from
- https://github.com/OpenRLHF/OpenRLHF/issues/1040: DistStoreError after 1801 seconds, 1/3 clients joined
- https://github.com/mk-minchul/AdaFace/issues/87: "The client socket has timed out after 1800s"
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed
from ...analysis.stacks import place, user_frame
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import quoted_line
from ...wording.text import duration, line, many, said, signal_name
from ..rule import rule
from ._waits import HERE, Meeting, addresses, died_early, gave_up, nodes, waiting

TEXTS = (
    "torch.distributed.DistStoreError: Timed out after",
    "seconds waiting for clients.",
    "clients joined.",
    "torch.distributed.DistNetworkError: The client socket has timed out after",
    "Timed out initializing process group in store based barrier on rank",
)


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("recording|stacks",),
    yields_to=(Symptom.CRASHED, "rank-crash-cascade"),
)
def check(case: Case) -> Iterator[Finding]:
    found = gave_up(case) or waiting(case)
    if found is not None:
        yield _finding(case, found)
    elif (launcher := nodes(case)) is not None:
        seen, stack, wanted = launcher
        yield case.finding(
            seen,
            cause=f"The launcher (pid {seen.pid}) is waiting for other machines: not all of {wanted} nodes joined.",
            seen=[f"it has started no rank in {duration(seen.age)}", f"`{quoted_line(seen.command)}`"],
            remedy=Remedy(
                "Start the same command on the other nodes, with the same address, port and number of nodes.",
            ),
            alternatives=[Remedy("Use --nnodes=1 if there is only this machine.")],
            where=place(user_frame(stack.calls)),
            subject=Subject("nodes", wanted),
            symptom=Symptom.WAITING.value,
        )


def _finding(case: Case, one: Meeting) -> Finding:
    remedies = _remedies(case, one)
    return case.finding(
        one,
        cause=f"{_cause(case, one)}.",
        seen=list(_seen(case, one)),
        remedy=remedies[0],
        alternatives=remedies[1:],
        pid=None,
        rank=one.missing[0] if one.missing else None,
        onset_s=case.stall.since if case.stall is not None else one.death.at - one.seconds if one.death else None,
        where=one.where,
        subject=Subject("address", one.address) if one.address else None,
        symptom="" if one.death is not None or one.address.startswith(HERE) else Symptom.WAITING.value,
        certainty=Certainty.CERTAIN.value if one.death is not None else "",
    )


def _name(one: Meeting) -> str:
    return f"rank {one.rank} (pid {one.pid})" if one.rank is not None else f"pid {one.pid}"


def _cause(case: Case, one: Meeting) -> str:
    told = addresses(case)
    if len(told) > 1:
        apart = "; ".join(f"{listed(sorted(ranks))} at {address}" for address, ranks in sorted(told.items()))
        return f"The ranks were given different addresses and wait for each other: {apart}"
    name = f"rank {one.rank}" if one.rank is not None else _name(one)
    took = duration(one.seconds)
    waits = f"timed out in init_process_group after {took}" if one.death is not None else f"has been waiting {took}"
    begin = f"{name[:1].upper()}{name[1:]} {waits}{'' if one.death is not None else ' in init_process_group'}"
    if one.missing:
        never = "never joined" if one.death is not None else f"{'has' if len(one.missing) == 1 else 'have'} not joined"
        return f"{begin}: {listed(one.missing)} {never}"
    return (
        f"{begin}: not all of {one.world} ranks joined" if one.world is not None else f"{begin}: no other rank joined"
    )


def _seen(case: Case, one: Meeting) -> Iterator[str]:
    if one.death is not None and one.death.failure is not None:
        yield f"{_name(one)}: {said(one.death.failure)}"
    elif one.world is not None:
        there = many(one.processes, "process")
        yield f"world size {one.world}, but this run has only {there} that can be a rank; {_name(one)} waits"
    if one.address:
        yield f"the ranks are to meet at {one.address}"
    if one.where is not None:
        yield f"init_process_group was called at {line(one.where)}"
    for rank in case.mains:
        if rank.rank in one.missing and rank.rank is not None:
            yield f"rank {rank.rank} (pid {rank.pid}) was started, but has not reached init_process_group"
    for gone in died_early(case, one.node, one.pid)[:4]:
        yield f"pid {gone.pid}, started next to it, {_ended(gone.status)} after {duration(gone.at)}"


def _ended(status: int) -> str:
    return f"was killed ({signal_name(status)})" if status < 0 else f"exited with code {status}"


def _remedies(case: Case, one: Meeting) -> list[Remedy]:
    if len(addresses(case)) > 1:
        return [Remedy("Give all ranks the same MASTER_ADDR and MASTER_PORT, or the same init_method.")]
    early = died_early(case, one.node, one.pid)
    if early:
        return [Remedy(f"Read the last output of pid {early[0].pid}: it {_ended(early[0].status)} before it joined.")]
    missing = listed(one.missing) if one.missing else "the missing ranks"
    reach = f" where it can reach {one.address}" if one.address and not one.address.startswith("file:") else ""
    start = Remedy(f"Start {missing}{reach}.")
    if _launched(case, one.pid):
        same = "Give nprocs (or --nproc-per-node) and world_size the same number."
        return [Remedy(same), start]
    size = Remedy("Set the world size (WORLD_SIZE, world_size=) to the number of processes that are started.")
    command = case.run.command
    script = next((number for number, word in enumerate(command) if word.endswith(".py")), None)
    if not one.address.startswith(HERE) or one.world is None or script is None:
        return [start, size]
    launch = ["torchrun", "--standalone", "--nproc-per-node", str(one.world), *command[script:]]
    together = "Start all ranks with one launcher, which sets the world size itself."
    return [Remedy(together, [quoted_line(launch)]), start, size]


def _launched(case: Case, pid: int) -> bool:
    """Something of this run has started it."""
    parents = {one.parent for one in (*(case.recording or ()), *(case.processes or ())) if one.pid == pid}
    return any(one.pid in parents for one in (*(case.recording or ()), *(case.processes or ())))
