"""Ranks that wait to meet the others before there is a process group: who is there, who is not, and where they meet."""

from __future__ import annotations

import re
from typing import NamedTuple

from .doing import meets, place, user_frame
from .evidence import Evidence, Exit
from .first_dead import ALONE, Death, deaths, members
from .look import Seen, Stack
from .places import Place
from .standing import idles, main_stack, recorded, standing
from .torch_errors import NOT_MET, errors_of

# Where only ranks of this machine can meet.
HERE = ("127.", "localhost", "::1", "tcp://127.", "tcp://localhost", "file:///tmp/", "file:///dev/shm/")
A_MOMENT = 5.0  # seconds: what one command starts on one machine is there long before
A_MINUTE = 60.0  # seconds: ranks on other machines are not seen from here, and may be that much later
ELASTIC = "torch/distributed/elastic/rendezvous/"


MANY = 10_000  # ranks that are named as missing; where there are more, nothing is known of them


class Meeting(NamedTuple):
    """One rank that waits, or waited in vain, and what is known of the others."""

    pid: int
    node: str
    rank: int | None
    world: int | None
    there: list[int]  # ranks that exist, this one among them
    processes: int  # how many exist: of some the number is not known
    address: str
    where: Place | None
    seconds: float
    death: Death | None = None  # it gave up

    @property
    def missing(self) -> list[int]:
        """Who is not there, if all who are have a number."""
        if self.world is None or len(self.there) != self.processes or self.world > len(self.there) + MANY:
            return []
        return [one for one in range(self.world) if one not in self.there]


def gave_up(evidence: Evidence) -> Meeting | None:
    """The first rank to end because nobody came."""
    for death in deaths(evidence):
        if death.how != ALONE or death.failure is None:
            continue
        process, group = death.process, death.process.group
        told = next((one for one in errors_of(death.failure) if one.kind == NOT_MET), None)
        ranks = [one for one in members(evidence) if one.group is not None]
        world = group.world if group is not None and group.world is not None else process.world
        rank = group.rank if group is not None and group.rank is not None else process.rank
        there = sorted({one.rank for one in ranks if one.rank is not None} | ({rank} if rank is not None else set()))
        return Meeting(
            pid=process.pid,
            node=process.node,
            rank=rank,
            world=told.world if told is not None and told.world is not None else world,
            there=there,
            processes=max(len(ranks), (told.joined if told is not None else None) or 1),
            address=told.address if told is not None and told.address else (group.address if group is not None else ""),
            where=group.where if group is not None and group.where is not None else death.where,
            seconds=death.at - (group.at if group is not None else death.at),
            death=death,
        )
    return None


def waiting(evidence: Evidence) -> Meeting | None:
    """The rank that waits for longest, if fewer are there than there should be."""
    alive = [one for one in evidence.processes or () if one.role in ("main", "child") and not one.ended]
    stacks = [(one, main_stack(evidence, one.pid)) for one in alive]
    waits = [(one, stack) for one, stack in stacks if stack is not None and meets(stack)]
    found = [_meeting(evidence, one, stack, alive) for one, stack in waits if idles(one.main_task, one.looked)]
    apart = len(addresses(evidence)) > 1
    found = [one for one in found if one.world is not None and (one.processes < one.world or apart)]
    found = [one for one in found if one.seconds >= _patience(one)]
    return max(found, key=lambda one: one.seconds, default=None)


def addresses(evidence: Evidence) -> dict[str, list[int]]:
    """Where the ranks that wait were told to meet. More than one: they never will."""
    found: dict[str, list[int]] = {}
    for one in members(evidence):
        group = one.group
        if group is not None and group.address and group.rank is not None and (group.ended is None or group.failed):
            found.setdefault(group.address, []).append(group.rank)
    return found


def _patience(one: Meeting) -> float:
    return A_MOMENT if one.address.startswith(HERE) else A_MINUTE


def _meeting(evidence: Evidence, seen: Seen, stack: Stack, alive: list[Seen]) -> Meeting:
    process = recorded(evidence, seen)
    group = process.group if process is not None else None
    told = {name: value for frame in reversed(stack.calls) for name, value in frame.locals.items() if value}
    rank = _first(group.rank if group is not None else None, _number(told.get("rank")), seen.rank)
    world = _first(group.world if group is not None else None, _number(told.get("world_size")), seen.world)
    host, port, method = (told.get(name, "").strip("'\"") for name in ("hostname", "port", "init_method"))
    ranks = {one.rank for one in alive if one.rank is not None and one.pid != seen.pid}
    return Meeting(
        pid=seen.pid,
        node=seen.node,
        rank=rank,
        world=world,
        there=sorted(ranks | ({rank} if rank is not None else set())),
        processes=len(alive),
        address=group.address
        if group is not None and group.address
        else f"{host}:{port}"
        if host
        else _address(method),
        where=group.where if group is not None and group.where is not None else place(user_frame(stack.calls)),
        seconds=_seconds(evidence, seen, stack, group.at if group is not None else None),
    )


def _address(method: str) -> str:
    return method if "://" in method and not method.startswith("env:") else ""


def _seconds(evidence: Evidence, seen: Seen, stack: Stack, began: float | None) -> float:
    """How long it waits: exactly, where it is recorded."""
    if began is not None and evidence.looked_at is not None:
        return max(evidence.looked_at - began, 0.0)
    return standing(evidence, seen, stack)


def _first(*values: int | None) -> int | None:
    return next((one for one in values if one is not None), None)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def nodes(evidence: Evidence) -> tuple[Seen, Stack, str] | None:
    """A launcher that waits for other machines and has started no rank yet: how many it wants, as its command says."""
    for seen in evidence.processes or ():
        stack = main_stack(evidence, seen.pid)
        if seen.role != "launcher" or stack is None or not any(ELASTIC in one.file for one in stack.calls):
            continue
        ranks = [one for one in evidence.processes or () if one.parent == seen.pid and one.role in ("main", "child")]
        wanted = re.search(r"--nnodes[= ](\S+)", " ".join(seen.command))
        if not ranks and seen.age >= A_MINUTE and wanted is not None:
            return seen, stack, wanted[1]
    return None


def died_early(evidence: Evidence, node: str, pid: int) -> list[Exit]:
    """What was started beside this rank and ended badly before it was recorded at all."""
    process = evidence.process(node, pid)
    found: dict[int, Exit] = {}
    if process is None:
        return []
    for seen in evidence.exits or ():
        beside = seen.node in ("", node) and seen.by == process.parent and seen.at >= process.opened
        if beside and seen.status and evidence.process(seen.node, seen.pid) is None:  # not of an earlier attempt
            found.setdefault(seen.pid, seen)
    return list(found.values())
