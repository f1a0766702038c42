"""A process without progress, put into the words that rules about it share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..evidence.basics import Place
from ..evidence.finding import Finding, Remedy, Subject
from ..evidence.live import Awaited, Seen, Stack
from ..wording.text import duration, many, short, who
from .case import Case
from .ranks import told as waits
from .ranks import waiting
from .stacks import fetch_of, place, user_frame
from .standstill import fetching, recorded, standing


class Culprit(NamedTuple):
    """Which process is blocked, where, on which sample, and for how long at least."""

    seen: Seen
    stack: Stack
    where: Place | None
    sample: int | str | None
    seconds: float
    loader: str

    @property
    def name(self) -> str:
        """As a sentence begins."""
        if self.seen.role == "worker":
            return f"DataLoader {who(self.seen)}"
        if self.seen.role == "child":
            return f"The child process {self.seen.pid}"
        return who(self.seen)[:1].upper() + who(self.seen)[1:]

    @property
    def spot(self) -> str:
        return f" at {short(self.where)}" if self.where is not None else ""

    @property
    def at_sample(self) -> str:
        return "" if self.sample is None else f" at sample {self.sample}"


def culprit(case: Case, seen: Seen, stack: Stack) -> Culprit:
    inside = fetch_of(stack)
    calls = inside[1] if inside is not None else stack.calls
    process, known = recorded(case, seen), fetching(case, seen)
    owner = case.owner_of(process.node, process.pid) if process is not None else None
    sample: int | str | None = known.index if known is not None else None
    if sample is None and inside is not None and inside[0] is not None:
        sample = int(inside[0]) if inside[0].lstrip("-").isdigit() else inside[0]
    where = place(user_frame(calls) or user_frame(stack.calls))
    name = owner.loader.name if owner is not None else ""
    return Culprit(seen, stack, where, sample, standing(case, seen, stack), name)


def found(
    one: Culprit,
    cause: str,
    seen: list[str],
    remedy: Remedy,
    case: Case,
    subject: Subject | None = None,
    alternatives: Sequence[Remedy] = (),
) -> Finding:
    """A finding about it; what it is about is the sample, unless something better is known."""
    if subject is None and one.sample is not None:
        subject = Subject("sample", str(one.sample))
    told = list(seen)
    if one.loader:
        told.append(f"loader: {one.loader}")
    if one.seen.rank is not None:
        told += waits(waiting(case))
    stall = case.stall
    began = None if stall is None else stall.since + max(stall.seconds - one.seconds, 0.0)
    return Finding(
        cause=cause,
        seen=told,
        remedy=remedy,
        alternatives=list(alternatives),
        node=one.seen.node,
        rank=one.seen.rank,
        worker=one.seen.worker,
        pid=one.seen.pid,
        onset_s=None if began is None else round(began, 3),
        where=one.where,
        subject=subject,
    )


def state(one: Culprit) -> str:
    """pid 7 is asleep in futex_do_wait: no progress for at least 12 s, no CPU time over a 1 s sample."""
    task = one.seen.main_task
    words = {"R": "running", "S": "asleep", "D": "blocked in the kernel", "T": "stopped", "t": "held by a tracer"}
    inside = f" in {task.wait_channel}" if task.wait_channel else ""
    used = "no CPU time" if task.cpu < 0.01 else f"{duration(task.cpu)} of CPU time"
    return (
        f"pid {one.seen.pid} is {words.get(task.state, task.state)}{inside}: no progress for at least "
        f"{duration(one.seconds)}, {used} over a {duration(one.seen.looked)} sample"
    )


def calls(one: Culprit, count: int = 3) -> str:
    """The innermost calls, for people who know their code."""
    inside = fetch_of(one.stack)
    frames = (inside[1] if inside is not None else one.stack.calls)[:count]
    return "innermost calls: " + " < ".join(f"{frame.name} ({short(place(frame))})" for frame in frames)


def awaited(one: Awaited) -> str:
    """The FIFO /data/x; the pipe to `curl …` (pid 12); the socket tcp … -> …."""
    if one.kind == "pipe":
        ends = ", ".join(f"`{holder.command}` (pid {holder.pid})" for holder in one.holders[:3])
        return f"a pipe to {ends}" if ends else "a pipe that no other process has open"
    if one.kind == "child":
        first, rest = one.holders[0], len(one.holders) - 1
        return f"its child `{first.command}` (pid {first.pid})" + (f" and {many(rest, 'other')}" if rest else "")
    names = {"fifo": "the FIFO", "socket": "the connection", "terminal": "the terminal", "file": "the file"}
    return f"{names[one.kind]} {one.name}" if one.kind in names else one.name
