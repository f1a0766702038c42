"""Fewer ranks were started than the run is told to have, and those that were wait for the rest.

## What it looks at
A rank that stands in `init_process_group` without using the processor, and how many ranks there are: those that are
recorded and those that a look at the processes shows, against the world size it was given. Or the exception with which
it gave up: torch's "1/2 clients joined", "client socket has timed out … while trying to connect". And a `torchrun` that
waits for other machines for over a minute.

## Why it happens
`WORLD_SIZE` or `world_size=` is larger than the number of processes that were started; a second node was never
launched; `MASTER_ADDR` or `MASTER_PORT` differ between the ranks, or a firewall is between them; a rank died while it
was importing. torch waits for half an hour without a word.

## What to do
Start the ranks that are missing, or give the world size that there is; best leave both to one launcher. Look into the
log of the missing rank. A short `timeout=` for `init_process_group` says so earlier.

## How sure it is
Certain where torch has counted. In a run that stands it counts processes: any that could be a rank and only has not
come yet, since it is still importing, makes it silent. Ranks on other machines may start minutes later: that is told as
*waiting*, after a minute. A rank that was recorded and died is the cause itself, and this its consequence.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.ranks import listed
from ...analysis.stacks import place, user_frame
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...wording.printable import quoted
from ...wording.text import duration, ending, line, many, said, short
from ..rule import rule
from ._waits import HERE, Meeting, addresses, died_early, gave_up, nodes, waiting


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
            cause=f"The launcher (pid {seen.pid}) waits for other machines: it was told of {wanted} nodes, and not all "
            "of them have come.",
            seen=[f"it has started no rank since it began {duration(seen.age)} ago", f"`{' '.join(seen.command)}`"],
            remedy=Remedy(
                "Start the same command on the other nodes, with the same address, port and number of nodes; or say "
                "--nnodes=1."
            ),
            where=place(user_frame(stack.calls)),
            subject=Subject("nodes", wanted),
            symptom=Symptom.WAITING.value,
        )


def _finding(case: Case, one: Meeting) -> Finding:
    return case.finding(
        one,
        cause=f"{_cause(case, one)}.",
        seen=list(_seen(case, one)),
        remedy=_remedy(case, one),
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
    at = f" at {short(one.where)}" if one.where is not None else ""
    waits = (
        f"gave up in init_process_group{at} after" if one.death is not None else f"waits in init_process_group{at} for"
    )
    told = addresses(case)
    name = _name(one)
    if len(told) > 1:
        apart = "; ".join(f"{listed(sorted(ranks))} at {address}" for address, ranks in sorted(told.items()))
        return f"The ranks were told to meet at different places and wait for each other: {apart}"
    begin = f"{name[:1].upper()}{name[1:]} {waits} {duration(one.seconds)}"
    if one.missing:
        are = "is" if len(one.missing) == 1 else "are"
        return f"{begin}: {listed(one.missing)} {are} not there, {len(one.there)} of {one.world} ranks came"
    return (
        f"{begin}: not all of {one.world} ranks came"
        if one.world is not None
        else f"{begin}: the other ranks did not come"
    )


def _seen(case: Case, one: Meeting) -> Iterator[str]:
    if one.death is not None and one.death.failure is not None:
        yield f"{_name(one)}: {said(one.death.failure)}"
    elif one.world is not None:
        yield f"{many(one.processes, 'process')} of this run that can be a rank, for a world size of {one.world}"
    if one.where is not None:
        yield f"init_process_group was called at {line(one.where)}"
    if one.address:
        yield f"the ranks are to meet at {one.address}"
    for rank in case.mains:
        if rank.rank in one.missing and rank.rank is not None:
            yield f"rank {rank.rank} (pid {rank.pid}) was started, but had not come to init_process_group"
    for gone in died_early(case, one.node, one.pid)[:4]:
        yield f"pid {gone.pid}, started beside it, {ending(gone.status)} after {duration(gone.at)}"


def _remedy(case: Case, one: Meeting) -> Remedy:
    if len(addresses(case)) > 1:
        return Remedy("Give all ranks the same MASTER_ADDR and MASTER_PORT, or the same init_method.")
    early = died_early(case, one.node, one.pid)
    if early:
        return Remedy(f"Look at why pid {early[0].pid} {ending(early[0].status)}: what it printed last says so.")
    missing = listed(one.missing) if one.missing else "the ranks that are missing"
    reach = f" where it can reach {one.address}" if one.address and not one.address.startswith("file:") else ""
    text = f"Start {missing}{reach}, or set the world size to the number of processes that are started"
    if _launched(case, one.pid):
        return Remedy(f"{text}: what starts them (nprocs=, --nproc-per-node) and world_size= have to say the same.")
    text = f"{text} (WORLD_SIZE, world_size=). One launcher for all ranks keeps both the same."
    script = next((word for word in case.run.command if word.endswith(".py")), "")
    local = one.address.startswith(HERE) and one.world is not None and script
    return Remedy(text, [f"torchrun --standalone --nproc-per-node {one.world} {quoted(script)}"] if local else [])


def _launched(case: Case, pid: int) -> bool:
    """Something of this run has started it."""
    parents = {one.parent for one in (*(case.recording or ()), *(case.processes or ())) if one.pid == pid}
    return any(one.pid in parents for one in (*(case.recording or ()), *(case.processes or ())))
