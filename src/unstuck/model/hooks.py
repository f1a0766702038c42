"""Hooks of callbacks and of models: what they cost a training, and one that does not come back."""

from __future__ import annotations

from typing import NamedTuple

from .alone import Alone, alone
from .between import CALLBACK, LOGGER, Call, Part
from .doing import OWN, doing
from .evidence import Evidence
from .glancing import glances_of, lines_of
from .loggers import TIMES, gets_on
from .look import Frame, Seen, Stack
from .places import Place
from .ranks import Stand, unfinished
from .recorded import Loader, Process
from .standing import LONG, asleep, mains

A_MINUTE = 60.0  # seconds: longer than anybody sleeps on purpose
EARLY = 0.5  # seconds by which two clocks of one rank may differ


class Spent(NamedTuple):
    """What one hook took of the training: between its epochs, or in the middle of them."""

    main: Process
    loader: Loader
    part: Part  # all its times together
    boundaries: float  # seconds of these between two passes

    @property
    def each(self) -> float:
        return self.part.seconds / max(self.part.count, 1)


def spent(main: Process, loader: Loader) -> list[Spent]:
    """The most costly hook first. What a hook calls that is known by another name is not counted to it."""
    between = [one for gap in loader.boundaries for one in gap.parts if one.what == CALLBACK]
    inside = [one for one in loader.between if one.what == CALLBACK]
    found: dict[tuple[str, Place | None], list[Part]] = {}
    for one in [*between, *inside]:
        found.setdefault((one.name, one.where), []).append(one)
    return sorted(
        (_spent(main, loader, name, where, own, between) for (name, where), own in found.items()),
        key=lambda one: -one.part.seconds,
    )


def _spent(
    main: Process, loader: Loader, name: str, where: Place | None, own: list[Part], between: list[Part]
) -> Spent:
    seconds = sum(one.seconds for one in own)
    # A hook that calls something in its middle is several stretches of time, and one call: once at a boundary.
    calls = [one.timing.count for one in main.calls if (one.name, one.where) == (name, where)]
    count = min([sum(1 if one in between else one.count for one in own), *calls])
    known = sum(one.seconds for one in own if one in between)
    return Spent(main, loader, Part(CALLBACK, name, seconds, count, where), known)


def met_at(evidence: Evidence, one: Spent) -> Place | None:
    """The line at which the watcher met the main thread most often in these times, if that is inside of the hook."""
    glances = [
        each for gap in one.loader.boundaries for each in glances_of(evidence, one.main, gap.at, gap.at + gap.seconds)
    ]
    found = [where for where, _ in lines_of(glances)]
    return next(iter(found), None)


class Standing(NamedTuple):
    """A hook that has not come back."""

    main: Process
    call: Call
    seconds: float
    stack: Stack
    seen: Seen


def never_back(evidence: Evidence) -> Standing | None:
    """It goes on for much longer than ever, in code of its own, and does nothing."""
    looked = evidence.looked_at
    for seen, stack in mains(evidence) if looked is not None else ():
        main = evidence.process(seen.node, seen.pid)
        call = open_hook(main, stack.calls) if main is not None else None
        if main is None or call is None or call.since is None or looked is None or doing(stack) != OWN:
            continue
        seconds = looked - call.since
        enough = max(LONG, TIMES * call.timing.longest, _patience(seen))
        if seconds >= enough and not gets_on(evidence, seen) and not _logs(main):
            return Standing(main, call, seconds, stack, seen)
    return None


def _patience(seen: Seen) -> float:
    """A sleep ends by itself, and one that is begun again and again may well be work: a hook has much of it."""
    return A_MINUTE if asleep(seen.main_task) else 0.0


def _logs(main: Process) -> bool:
    """A logger inside of it does not come back: that has rules of its own."""
    return any(one.what == LOGGER and one.since is not None for one in main.calls)


def open_hook(main: Process, frames: list[Frame]) -> Call | None:
    """The hook that it is in. Hooks may call others: then the one whose frame is innermost."""
    return _by_frame([one for one in main.calls if one.what == CALLBACK and one.since is not None], frames)


def hook_of(stand: Stand) -> Call | None:
    """The hook that a rank is in."""
    return open_hook(stand.process, _frames(stand)) if stand.process is not None else None


def _by_frame(calls: list[Call], frames: list[Frame]) -> Call | None:
    """Innermost first. A hook without a frame of its name is a lambda, or a wrapper: then the one that began last."""
    for frame in frames:
        named = [one for one in calls if hook_words(one.name)[1] == frame.name]
        own = [one for one in named if one.name == frame.function]  # a frame names the class that has written the hook
        if named:
            return max(own or named, key=_begun)
    return max(calls, key=_begun, default=None)


def _begun(call: Call) -> float:
    return call.since if call.since is not None else call.last


def _frames(stand: Stand) -> list[Frame]:
    """Its calls, or those that the exception came through which ended it."""
    if stand.stack is not None:
        return stand.stack.calls
    failed = stand.failed
    return [Frame(one.file, one.line, one.function) for one in reversed(failed.frames)] if failed is not None else []


def in_hook(evidence: Evidence, seen: Seen) -> bool:
    main = evidence.process(seen.node, seen.pid)
    return main is not None and open_hook(main, []) is not None


def alone_in_hook(evidence: Evidence) -> tuple[Alone, Call] | None:
    """A collective that only some ranks call, and that they call from inside of a hook."""
    found = alone(evidence)
    main = found.who.process if found is not None else None
    if found is None or main is None:
        return None
    first, waits_in = found.parting.first, unfinished(main)
    # Where it got on after that call, its frames are those of another, which may be in another hook.
    here = waits_in is None or waits_in.sequence == first.sequence
    around = [one for one in main.calls if one.what == CALLBACK and _covers(one, first.at, EARLY if here else 0.0)]
    call = _by_frame(around, _frames(found.who) if here else [])
    return (found, call) if call is not None else None


def _covers(call: Call, moment: float, early: float) -> bool:
    """It was entered before and has not come back since, or only by an exception."""
    if call.since is not None:
        return call.since - early <= moment
    return bool(call.failed) and call.at - early <= moment <= call.last + early


def hook_words(name: str) -> tuple[str, str]:
    """Class and hook: `Upload`, `on_train_epoch_end`."""
    owner, _, hook = name.rpartition(".")
    return owner, hook
