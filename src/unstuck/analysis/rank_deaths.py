"""Which rank crashed first, and why; which only lost their partner, timed out, or were stopped by the launcher.

When one rank crashes, all the others fail because of it, and each prints an error of its own. The first one matters.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from ..evidence import Exit
from ..evidence.basics import Place
from ..evidence.process import Failure, Process
from ..wording.text import many, said, signal_name, who
from .case import Case, is_users, once
from .failures import OWN_DECISION, raised_at
from .torch_errors import NOT_MET, PEER_GONE, TIMED_OUT, at, errors_of

# How torch.multiprocessing.spawn and torchrun say which rank was ended by a signal before they ended the others.
TOLD_FIRST = re.compile(
    r"(?:^process |Root Cause[^:]*:\s+\[0\]:[^\[]*?\brank\s*: )(\d+)\b[^\[]*(?:\bSIG[A-Z]|Signal \d|: -\d)"
)
# Statuses of what was asked to go: SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGXCPU,
# SIGVTALRM, SIGPROF, SIGPWR. All other signals that end a process are those of a crash, or SIGKILL.
ASKED = (-1, -2, -3, -10, -12, -13, -14, -15, -24, -26, -27, -30)
WARNINGS = (10, 12)  # SIGUSR1, SIGUSR2: mostly there is a handler, which saves, and the run goes on
SEEN_LATE = 1.0  # seconds: launchers look after their ranks that often, so a status may be older than it seems
RAISED, KILLED, LEFT = "raised", "killed", "left"  # by itself: an exception, a signal, an exit code
PARTNER_GONE, GAVE_UP, TOLD_TO_GO, FINISHED = "partner gone", "gave up", "told to go", "finished"
ALONE = "alone"  # no other rank joined
BY_ITSELF = (RAISED, KILLED, LEFT)
ABORTED = -6  # SIGABRT: how NCCL's watchdog ends a process, and gloo one that is sent more than it asked for
NCCL = "nccl"
CHECKED = 1.0  # seconds by which what is seen of a wait may be shorter than it was
ECHOES = (*TIMED_OUT, NOT_MET, *PEER_GONE)
SIGNALLED = "SignalException"  # by which torchrun ends when it receives a signal itself


class Death(NamedTuple):
    """How a rank ended."""

    process: Process
    how: str
    at: float
    status: int | None = None
    failure: Failure | None = None

    @property
    def where(self) -> Place | None:
        """The user's line: where it raised, or where native code crashed under it."""
        if self.failure is not None:
            return raised_at(self.failure)
        return crashed_at(self.process)

    @property
    def words(self) -> str:
        """ValueError at train.py:12; SIGKILL; exit code 3."""
        if self.failure is not None:
            return self.failure.type + at(self.failure, self.where)
        if self.status is not None and self.status < 0:
            return signal_name(self.status)
        return f"exit code {self.status}"


def crashed_at(process: Process) -> Place | None:
    """The user's line that a process was at when native code crashed it."""
    calls = process.crash or process.crash_beside
    return next((place for place in reversed(calls) if is_users(place)), None)


class Cascade(NamedTuple):
    """The first, and those that failed because of it or still wait for it."""

    first: Death
    others: list[Death]
    waiting: list[Process]


@once
def members(case: Case) -> list[Process]:
    """Ranks, by number, and what was started beside them and never got as far as to be one."""
    ranks = sorted((one for one in case.mains if one.rank is not None), key=lambda one: one.rank or 0)
    started_by = {(one.node, one.parent) for one in ranks}
    beside = [
        one
        for one in case.recording or ()
        if one.role in ("main", "other") and one.rank is None and (one.node, one.parent) in started_by
    ]
    return [*ranks, *_numbered(beside, ranks)]


def _numbered(beside: list[Process], ranks: list[Process]) -> list[Process]:
    """A single one without a number is the rank whose number is missing."""
    world = next((one.world or (one.group.world if one.group else None) for one in ranks), None)
    taken = {one.rank for one in ranks if one.rank is not None and world is not None and one.rank < world}
    if world is None or len(beside) != 1 or world - len(taken) != 1:
        return beside
    missing = next(number for number in range(world) if number not in taken)  # as many are known but for this one
    return [msgspec.structs.replace(beside[0], rank=missing, role="main")]


@once
def deaths(case: Case) -> list[Death]:
    """In order of time. Ranks that finished are among them; those that live, or ended unseen, are not."""
    found = [death for one in members(case) if (death := _death(one, case.exit_of(one))) is not None]
    return _aborted_later(sorted(found, key=_order))


@once
def first_dead(case: Case) -> Death | None:
    """The first that crashed by itself, else the first of all. Ranks that finished or were stopped did not crash."""
    died = [one for one in deaths(case) if one.how not in (FINISHED, TOLD_TO_GO)]
    return next((one for one in died if one.how in (*BY_ITSELF, GAVE_UP, ALONE)), died[0] if died else None)


@once
def cascade(case: Case) -> Cascade | None:
    """None: no rank crashed, no other failed because of it, or the first to end had not crashed by itself."""
    ended = deaths(case)
    ranks = members(case)
    if len(ranks) < 2 or not ended or _was_stopped(case):
        return None
    died = [one for one in ended if one.how in (*BY_ITSELF, GAVE_UP, ALONE)] or told_alone(case)
    if not died or died[0].how in (GAVE_UP, ALONE):
        return None
    first = died[0]
    others = [one for one in ended if one.process is not first.process]
    waiting = [one for one in ranks if one.alive] if case.stall is not None else []
    suffered = [one for one in others if one.how in (PARTNER_GONE, GAVE_UP, ALONE, TOLD_TO_GO)]
    return Cascade(first, others, waiting) if suffered or waiting else None


def _order(death: Death) -> float:
    """A signal strikes at once, but its status is seen late; a rank that leaves with a code has said so itself."""
    return death.at - SEEN_LATE if death.how == KILLED else death.at


def _death(process: Process, seen: Exit | None) -> Death | None:
    failure = process.failure
    if failure is not None and failure.how == "uncaught":
        status = seen.status if seen is not None else None
        return Death(process, _by_exception(failure), failure.at, status, failure)
    if seen is None or process.alive:
        return None
    at = seen.at if process.ended is None else min(seen.at, process.ended)
    how = GAVE_UP if _watchdog_gave_up(process, seen.status, at) else _by_status(seen.status)
    return Death(process, how, at, seen.status)


def _watchdog_gave_up(process: Process, status: int, at: float) -> bool:
    """NCCL's watchdog, a thread without Python, aborts a process that has waited for the others as long as it may.

    No exception says so. It shows in which thread aborted, and in that this rank made no step for the group's timeout.
    """
    timeout = process.group.timeout if process.group is not None else None
    if not by_watchdog(process, status) or timeout is None:
        return False
    waits = [one.at for one in process.collectives if not one.finished]
    since = min([process.last_sign, *waits])
    return at - since >= timeout - CHECKED


def by_watchdog(process: Process, status: int | None) -> bool:
    """It was aborted by a native thread of a process whose ranks meet by NCCL."""
    nccl = process.group is not None and NCCL in process.group.backend
    return status == ABORTED and nccl and not process.crash


def _aborted_later(ended: list[Death]) -> list[Death]:
    """A watchdog that aborts after another rank has ended, and before its own timeout, has noticed that."""
    found: list[Death] = []
    for one in ended:
        late = any(before.how in (*BY_ITSELF, GAVE_UP, PARTNER_GONE) for before in found)
        noticed = late and one.how == KILLED and by_watchdog(one.process, one.status)
        found.append(one._replace(how=PARTNER_GONE) if noticed else one)
    return found


def _by_exception(failure: Failure) -> str:
    if failure.type in OWN_DECISION:
        return TOLD_TO_GO
    kinds = {one.kind for one in errors_of(failure)}
    if kinds.intersection(TIMED_OUT):
        return GAVE_UP
    if NOT_MET in kinds:
        return ALONE
    return PARTNER_GONE if kinds.intersection(PEER_GONE) else RAISED


def _by_status(status: int) -> str:
    if status in ASKED:
        return TOLD_TO_GO
    return FINISHED if status == 0 else KILLED if status < 0 else LEFT


def _was_stopped(case: Case) -> bool:
    """The whole run was told to go: the command, or its launcher, received the signal."""
    told = (SIGNALLED, *OWN_DECISION)
    if case.run.status in ASKED or any(one.type in told for one in launcher_failures(case)):
        return True
    ended = deaths(case)
    heard = [one for host in case.host or () for one in host.signals if not one.ignored]
    return bool(ended) and any(one.at <= ended[0].at and one.signal not in WARNINGS for one in heard)


@once
def told_alone(case: Case) -> list[Death]:
    """The one rank that was told to go while nothing was told to its launcher; at most one.

    A launcher tells ranks to go only after one has ended. So where all ranks have ended and none of them by itself, one
    was told from outside: the one that the launcher names, or the one that ended before the others lost it.
    """
    ended, ranks = deaths(case), members(case)
    told = [one for one in ended if one.how == TOLD_TO_GO and one.status in ASKED]
    lost = [one for one in ended if one.how == PARTNER_GONE]
    all_there = len(ranks) > 1 and (ranks[0].world is None or len(ranks) >= ranks[0].world)
    if not told or not all_there or len(told) + len(lost) < len(ranks) or _was_stopped(case):
        return []
    first = {int(rank) for one in launcher_failures(case) for rank in TOLD_FIRST.findall(one.message)}
    alone = bool(lost) and all(one.status not in ASKED for one in lost) and told[0].at < lost[0].at
    return [one for one in told if one.process.rank in first or alone][:1]


@once
def launcher_failures(case: Case) -> list[Failure]:
    return [one.failure for one in case.recording or () if one.role == "launcher" and one.failure is not None]


def of_others(cascade: Cascade) -> list[str]:
    """What became of them, for the evidence of a finding."""
    told = {
        PARTNER_GONE: "lost the connection to it",
        GAVE_UP: "timed out in a collective",
        ALONE: "timed out waiting for it to join",
        TOLD_TO_GO: "were stopped by their launcher",
        RAISED: "raised an exception afterwards",
        LEFT: "exited with an error code afterwards",
        KILLED: "were killed by a signal afterwards",
        FINISHED: "had finished",
    }
    found = []
    for how, words in told.items():
        some = [one for one in cascade.others if one.how == how]
        if some:
            found.append(f"{_names(some)} {words if len(some) > 1 else _single(words)}{_saying(some[0])}")
    if cascade.waiting:
        found.append(f"{many(len(cascade.waiting), 'rank')} still waiting for it")
    return found


def _names(some: list[Death]) -> str:
    ranks = [str(one.process.rank) for one in some if one.process.rank is not None]
    if len(ranks) == len(some) > 1:
        return f"ranks {', '.join(ranks[:-1])} and {ranks[-1]}"
    return " and ".join(who(one.process) for one in some[:4])


def _single(words: str) -> str:
    return words.replace("their", "its", 1).replace("were", "was", 1)


def _saying(death: Death) -> str:
    """Its own words, as far as they are an echo of the first's."""
    if death.failure is None or death.how == TOLD_TO_GO:
        return ""
    echo = next((one for one in errors_of(death.failure) if one.kind in ECHOES), None)
    return f": {said(death.failure, 160)}" if echo is None else f': "{echo.words}"'
