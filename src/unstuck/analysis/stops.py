"""The end that came from outside: by which signal, when, from whom; and how old the last checkpoint was then."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ..evidence import Exit, Told
from ..evidence.finding import Certainty
from ..evidence.loader import Loader, LoaderState
from ..evidence.process import Process, Saved, Saving
from ..wording.text import duration, many
from .case import Case, once
from .failures import ended_by
from .rank_deaths import (
    ALONE,
    ASKED,
    BY_ITSELF,
    GAVE_UP,
    PARTNER_GONE,
    SIGNALLED,
    TOLD_TO_GO,
    WARNINGS,
    deaths,
    launcher_failures,
    members,
)
from .side_work import last_trained

SIGINT = 2
SHELL = 128  # a shell gives this much more than the number of the signal that ended what it had started
MESSAGE = re.compile(r"got signal: (?:Signals\.)?(\d+|SIG[A-Z0-9]+)")  # of torchrun
NUMBERS = {"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGUSR1": 10, "SIGUSR2": 12, "SIGTERM": 15}
IN_THE_MIDDLE = (LoaderState.IN_BODY, LoaderState.WAITING)  # of a pass


class Stop(NamedTuple):
    """What stopped a run."""

    signal: int  # 0: not known
    at: float
    told: Told | None = None
    certainty: Certainty = Certainty.CERTAIN


@once
def stop_of(case: Case) -> Stop | None:
    """None: it goes on, came to its end, or ended by itself."""
    if case.trial is not None or not _is_over(case):
        return None
    return _told(case) or _said(case) or _by_status(case) or _vanished(case)


def _is_over(case: Case) -> bool:
    hosts = case.host or []
    gone = bool(hosts) and all(one.watcher_ended or one.broke_off for one in hosts)
    return case.run.status is not None or (gone and not any(one.alive for one in case.recording or ()))


def _told(case: Case) -> Stop | None:
    """A signal came for the command, and it went: at once, or in a handler of its own, with any exit code."""
    heard = [one for host in case.host or () for one in host.signals if -one.signal in ASKED and not one.ignored]
    crashed = _crashed(case)
    for one in sorted(heard, key=lambda one: one.at):
        if (crashed is None or crashed > one.at) and _went(case, one):
            return Stop(one.signal, one.at, one)
    return None


def _went(case: Case, told: Told) -> bool:
    status, mains = case.run.status, [one for one in case.mains if one.loaders or one.optimizer_steps]
    if status in (-told.signal, SHELL + told.signal):
        return True
    if not mains:
        return told.signal not in WARNINGS
    on = [one for one in mains if last_trained(one) > told.at + _longest_step(one)]
    if told.signal in WARNINGS:  # a handler that saves, and goes on, is what most send them for
        return not on and any(_in_the_middle(one) for one in mains)
    return not on or any(_in_the_middle(one) for one in on)


def _longest_step(process: Process) -> float:
    """The one that it was in comes to its end."""
    return max((one.bodies.longest + one.waits.longest for one in process.loaders), default=0.0)


def _in_the_middle(process: Process) -> bool:
    """It left the loop over its training data before that came to its end."""
    trained = [one for one in process.loaders if one.optimizer_steps]
    newest: Loader | None = max(trained, key=lambda one: one.now_since, default=None)
    return newest is not None and newest.now in IN_THE_MIDDLE


def _crashed(case: Case) -> float | None:
    """When the first process ended by itself, or lost another."""
    died = [one.at for one in deaths(case) if one.how in (*BY_ITSELF, PARTNER_GONE, GAVE_UP, ALONE)]
    raised = [one.at for process in case.mains if (one := ended_by(process)) is not None]
    return min([*died, *raised], default=None)


def _said(case: Case) -> Stop | None:
    """The program, or its launcher, raised because of the signal, and nothing caught that."""
    if case.run.status == 0:
        return None
    for said in launcher_failures(case):
        number = MESSAGE.search(said.message) if said.type == SIGNALLED else None
        by_itself = [one for one in deaths(case) if one.how in BY_ITSELF and one.at < said.at]
        if number is not None and not by_itself:  # it says so when its ranks are gone, which may have lost each other
            return Stop(int(number[1]) if number[1].isdigit() else NUMBERS.get(number[1], 0), said.at)
    crashed, ranks = _crashed(case), members(case)
    alone = [one for one in case.recording or () if len(ranks) < 2 or one not in ranks]
    for one in alone:
        failure = one.failure if one.role in ("main", "launcher") else None
        if failure is None or failure.how != "uncaught" or failure.type != "KeyboardInterrupt":
            continue
        if crashed is None or crashed > failure.at:
            return Stop(SIGINT, failure.at)
    return None


def _by_status(case: Case) -> Stop | None:
    status = case.run.status
    if status is not None and status in ASKED:
        return Stop(-status, _ended_at(case))
    if status == 0 or _crashed(case) is not None:
        return None
    if status is not None and case.recording is None:
        return Stop(status - SHELL, _ended_at(case), None, Certainty.LIKELY) if SHELL - status in ASKED else None
    ranks, ended = members(case), deaths(case)
    if len(ranks) > 1:  # all of them
        told = [one for one in ended if one.how == TOLD_TO_GO and one.status in ASKED]
        return Stop(-(told[0].status or 0), told[0].at) if told and len(told) == len(ranks) else None
    last = _last_main(case)
    if last is None or last.status not in ASKED:
        return None
    sure = (
        case.is_command(last.node, last.pid) or status == SHELL - last.status
    )  # else what started it may have ended it
    return Stop(-last.status, last.at, None, Certainty.CERTAIN if sure else Certainty.LIKELY)


def _last_main(case: Case) -> Exit | None:
    """Of several main processes, an earlier one may have been ended by the program that started them."""
    ends = [seen for main in case.mains if (seen := case.exit_of(main)) is not None]
    return max(ends, key=lambda seen: seen.at, default=None)


def _ended_at(case: Case) -> float:
    """When the command did."""
    ends = [seen.at for seen in case.exits or () if case.is_command(seen.node, seen.pid)]
    return min(ends, default=0.0)


def _vanished(case: Case) -> Stop | None:
    """It was in the middle of its data, and then there was nothing of it any more, not even an exit status."""
    mains = case.mains
    silent = [one for one in mains if one.ended is None and not one.failures and not case.exits_of(one)]
    if case.run.status is not None or not silent or len(silent) < len(mains):
        return None
    at = max(one.last_sign for one in silent)
    if any(one.broke_off for one in case.host or ()):
        return Stop(0, max([at, *_last_look(case)]), None, Certainty.LIKELY)
    return Stop(0, at, None, Certainty.POSSIBLE) if any(_in_the_middle(one) for one in silent) else None


def _last_look(case: Case) -> list[float]:
    return [one.samples[-1].at for one in case.host or () if one.samples]


class Covered(NamedTuple):
    """The newest checkpoint that was there when the run was stopped."""

    saved: Saved
    process: Process
    age: float  # seconds
    steps: int | None  # optimizer steps after it, of the same process; None: not known


def covered(case: Case, at: float) -> Covered | None:
    """None: no save was seen to its end, or nothing of it is left."""
    found = [(one, process) for process in case.mains for one in process.saved if _is_whole(one)]
    if not found:
        return None
    saved, process = max(found, key=lambda pair: _done(pair[0]))
    folder = os.path.dirname(saved.path)
    parts = [one for one, _ in found if os.path.dirname(one.path) == folder and one.step == saved.step]
    if len({one.path for one in parts}) > 1:  # model, optimizer, random state: together they are the checkpoint
        saved = msgspec.structs.replace(saved, path=folder)
    steps = process.optimizer_steps - saved.step if saved.step else None
    return Covered(saved, process, max(at - _done(saved), 0.0), steps)


@once
def cut_off(case: Case) -> Saving | None:
    """A save that was going on."""
    return next((one for process in case.mains for one in process.saving), None)


def _done(one: Saved) -> float:
    return one.at + (one.writing if one.writing is not None else one.seconds)


def _is_whole(one: Saved) -> bool:
    written = not one.background or one.writing is not None
    return written and not one.failed and bool(one.path) and one.there is not False and one.whole is not False


def before_limit(case: Case, at: float) -> float | None:
    """Seconds from a moment of the run to its scheduler's time limit; None: it has none that is known."""
    limit = case.run.time_limit
    return None if limit is None or not case.run.started else limit - case.run.started - at


def standstill(case: Case, at: float) -> float | None:
    """Seconds for which nothing had moved when the signal came, where that had been noticed before."""
    stall = case.stall
    return None if stall is None or stall.since + stall.seconds > at else at - stall.since


def checkpoint(case: Case, saved: Covered | None) -> str:
    """Whether the last checkpoint covers it; nothing where nothing was trained."""
    if saved is not None:
        step = f" (step {saved.saved.step:,})" if saved.saved.step else ""
        if saved.steps == 0 or not saved.age:
            return f"; the last checkpoint{step} covers it"
        return f"; the last checkpoint{step} is {duration(saved.age)} older"
    return "; no checkpoint was seen" if any(one.optimizer_steps for one in case.mains) else ""


def coverage(case: Case, saved: Covered | None) -> Iterator[str]:
    """What is saved and what is lost."""
    if saved is not None:
        lost = f"; {many(saved.steps, 'step')} after it" if saved.steps is not None else ""
        yield f"last completed save: {saved.saved.path}, {duration(saved.saved.at)} after the start{lost}"
    unfinished = cut_off(case)
    if unfinished is not None:
        yield f"a save was cut off: {unfinished.path}"
