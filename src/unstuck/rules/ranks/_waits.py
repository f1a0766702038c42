"""Which rank is missing: from a collective in which others timed out, or from the first meeting of all."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...analysis.case import Case, doing_with, once
from ...analysis.rank_deaths import ALONE, BY_ITSELF, FINISHED, GAVE_UP, PARTNER_GONE, Death, deaths, members
from ...analysis.ranks import Stand, elsewhere, stand
from ...analysis.stacks import meets, place, user_frame
from ...analysis.standstill import idles, main_stack, recorded, standing
from ...analysis.torch_errors import NOT_MET, TorchError, errors_of
from ...evidence import Exit
from ...evidence.basics import Place
from ...evidence.live import Seen, Stack
from ...evidence.loader import LoaderState
from ...evidence.process import Process
from ...wording.text import duration, short

# Which rank never reached a collective in which others timed out, and what it did instead.
IN_STEP = "had been inside step"
LATE = 0.5  # of the timeout: a rank that came so much later than the others is the one they waited for


class Absent(NamedTuple):
    """A rank that others waited for, and that never came."""

    rank: int
    process: Process | None
    doing: str  # in words, without its name; empty: it does not show
    where: Place | None = None  # the line it was at
    since: float | None = None  # seconds after the start


class Wait(NamedTuple):
    """Ranks that timed out, in order, and the ranks they waited for."""

    gave_up: list[Death]
    call: str  # all_reduce, barrier, backward …
    seconds: float | None
    absent: list[Absent]
    sure: bool  # which rank is absent is known, rather than guessed


@once
def timed_out(case: Case) -> Wait | None:
    ended = deaths(case)
    gave_up = [one for one in ended if one.how == GAVE_UP]
    if not gave_up:
        return None
    first = gave_up[0]
    stands = {one.rank: one for one in stand(case)}
    mine = stands.get(first.process.rank if first.process.rank is not None else -1)
    seconds = _gave_up_after(first)
    absent, sure = _absent(case, ended, gave_up, seconds)
    return Wait(gave_up, mine.call if mine is not None else "", seconds, absent, sure)


def _gave_up_after(death: Death) -> float | None:
    """As torch says it, else as the group was made."""
    limit = next((one.timeout_ms for one in _errors(death) if one.timeout_ms is not None), None)
    if limit is not None:
        return limit / 1000
    return death.process.group.timeout if death.process.group is not None else None


def _errors(death: Death) -> list[TorchError]:
    return errors_of(death.failure) if death.failure is not None else []


def _absent(case: Case, ended: list[Death], gave_up: list[Death], seconds: float | None) -> tuple[list[Absent], bool]:
    """By what torch says, by which had ended before, by stacks, by Flight Recorders, or as those that remain."""
    first = gave_up[0]
    ranks = {one.rank: one for one in case.ranks if one.rank is not None}
    numbers = next((one.absent for one in _errors(first) if one.absent), [])
    if numbers:
        return [_recorded(number, ranks.get(number), first) for number in numbers], True
    gone = [one for one in ended if one.how in (*BY_ITSELF, FINISHED) and one.at < first.at]
    if gone:
        return [_ended(one) for one in gone if one.process.rank is not None], True
    apart = [one for one in elsewhere(case) if one.rank not in {other.process.rank for other in gave_up}]
    if apart:
        return [_seen(one) for one in apart], True
    late = _late(list(ranks.values()), first, seconds)
    if late:
        return [_recorded(one.rank or 0, one, first) for one in late], True
    echoed = {one.process.rank for one in ended if one.how in (GAVE_UP, PARTNER_GONE)}
    rest = [one for number, one in ranks.items() if number not in echoed]
    return [_recorded(one.rank or 0, one, first) for one in rest], len(rest) == 1


def _late(ranks: list[Process], first: Death, seconds: float | None) -> list[Process]:
    """Ranks whose Flight Recorder has not the call in which the first one timed out, or has it from much later."""
    newest = max(first.process.collectives, key=lambda one: one.at, default=None)
    if newest is None or seconds is None:
        return []
    late = []
    for rank in ranks:
        if rank is first.process or not rank.collectives:
            continue
        came = next(
            (one.at for one in rank.collectives if (one.group, one.sequence) == (newest.group, newest.sequence)), None
        )
        if came is None or came > newest.at + LATE * seconds:
            late.append(rank)
    return late


def _ended(death: Death) -> Absent:
    how = "had finished" if death.how == FINISHED else f"had already ended ({death.words})"
    return Absent(death.process.rank or 0, death.process, f"{how} {duration(death.at)} after the start", death.where)


def _seen(one: Stand) -> Absent:
    spot = f" at {short(one.where)} ({one.where.function})" if one.where is not None else ""
    return Absent(one.rank, one.process, f"was {one.doing or 'elsewhere'}{spot}", one.where)


def _recorded(rank: int, process: Process | None, first: Death) -> Absent:
    """What it was doing when the first one timed out, by its recording."""
    if process is None:
        return Absent(rank, None, "left no recording")
    span = next((one for one in process.spans if one.at < first.at and (one.ended or first.at) >= first.at), None)
    if span is not None:
        spot = f" at {short(span.where)}" if span.where is not None else ""
        return Absent(rank, process, f"was in {span.name}{spot}", span.where)
    stage = process.stages_now[-1] if process.stages_now else None
    if stage is not None:
        return Absent(rank, process, f"had been in the stage {stage.name}", None, stage.since)
    loader = process.newest_loader
    if loader is None or not loader.now:
        return Absent(rank, process, "")
    doing = f"had been {doing_with(loader)} (after batch {loader.batches:,})"
    if loader.now == LoaderState.IN_BODY:
        doing = f"{IN_STEP} {loader.batches:,}"
    return Absent(rank, process, doing, None, loader.now_since)


# Ranks that wait to meet the others before there is a process group: which are there, which are not, and where.
# Where only ranks of this machine can meet.
HERE = ("127.", "localhost", "::1", "tcp://127.", "tcp://localhost", "file:///tmp/", "file:///dev/shm/")
A_MOMENT = 5.0  # seconds: what one command starts on one machine is there long before
A_MINUTE = 60.0  # seconds: ranks on other machines are not seen from here, and may be that much later
ELASTIC = "torch/distributed/elastic/rendezvous/"


MANY = 10_000  # ranks that are named as missing; where there are more, nothing is known of them


class Meeting(NamedTuple):
    """One rank that waits, or has timed out, and what is known of the others."""

    pid: int
    node: str
    rank: int | None
    world: int | None
    there: list[int]  # ranks that exist, this one among them
    processes: int  # how many exist: of some the number is not known
    address: str
    where: Place | None
    seconds: float
    death: Death | None = None  # it timed out

    @property
    def missing(self) -> list[int]:
        """Ranks that are not there, if all that are have a number."""
        if self.world is None or len(self.there) != self.processes or self.world > len(self.there) + MANY:
            return []
        return [one for one in range(self.world) if one not in self.there]


@once
def gave_up(case: Case) -> Meeting | None:
    """The first rank to end because no other joined."""
    for death in deaths(case):
        if death.how != ALONE or death.failure is None:
            continue
        process, group = death.process, death.process.group
        told = next((one for one in errors_of(death.failure) if one.kind == NOT_MET), None)
        ranks = [one for one in members(case) if one.group is not None]
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


@once
def waiting(case: Case) -> Meeting | None:
    """The rank that waits for longest, if fewer are there than there should be."""
    alive = [one for one in case.processes or () if one.role in ("main", "child") and not one.ended]
    stacks = [(one, main_stack(case, one.pid)) for one in alive]
    waits = [(one, stack) for one, stack in stacks if stack is not None and meets(stack)]
    found = [_meeting(case, one, stack, alive) for one, stack in waits if idles(one.main_task, one.looked)]
    apart = len(addresses(case)) > 1
    found = [one for one in found if one.world is not None and (one.processes < one.world or apart)]
    found = [one for one in found if one.seconds >= _patience(one)]
    return max(found, key=lambda one: one.seconds, default=None)


@once
def addresses(case: Case) -> dict[str, list[int]]:
    """Where the ranks that wait were told to meet. More than one: they never will."""
    found: dict[str, list[int]] = {}
    for one in members(case):
        group = one.group
        if group is not None and group.address and group.rank is not None and (group.ended is None or group.failed):
            found.setdefault(group.address, []).append(group.rank)
    return found


def _patience(one: Meeting) -> float:
    return A_MOMENT if one.address.startswith(HERE) else A_MINUTE


def _meeting(case: Case, seen: Seen, stack: Stack, alive: list[Seen]) -> Meeting:
    process = recorded(case, seen)
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
        seconds=_waited(case, seen, stack, group.at if group is not None else None),
    )


def _address(method: str) -> str:
    return method if "://" in method and not method.startswith("env:") else ""


def _waited(case: Case, seen: Seen, stack: Stack, began: float | None) -> float:
    """How long it waits: exactly, where it is recorded."""
    if began is not None and case.looked_at is not None:
        return max(case.looked_at - began, 0.0)
    return standing(case, seen, stack)


def _first(*values: int | None) -> int | None:
    return next((one for one in values if one is not None), None)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


@once
def nodes(case: Case) -> tuple[Seen, Stack, str] | None:
    """A launcher that waits for other machines and has started no rank yet: how many it wants, as its command says."""
    for seen in case.processes or ():
        stack = main_stack(case, seen.pid)
        if seen.role != "launcher" or stack is None or not any(ELASTIC in one.file for one in stack.calls):
            continue
        ranks = [one for one in case.processes or () if one.parent == seen.pid and one.role in ("main", "child")]
        wanted = re.search(r"--nnodes[= ](\S+)", " ".join(seen.command))
        if not ranks and seen.age >= A_MINUTE and wanted is not None:
            return seen, stack, wanted[1]
    return None


def died_early(case: Case, node: str, pid: int) -> list[Exit]:
    """What was started beside this rank and ended badly before it was recorded at all."""
    process = case.process(node, pid)
    found: dict[int, Exit] = {}
    if process is None:
        return []
    for seen in case.exits or ():
        beside = seen.node in ("", node) and seen.by == process.parent and seen.at >= process.opened
        if beside and seen.status and case.process(seen.node, seen.pid) is None:  # not of an earlier attempt
            found.setdefault(seen.pid, seen)
    return list(found.values())
