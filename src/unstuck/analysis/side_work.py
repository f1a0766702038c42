"""What loggers, hooks and checkpoints cost a training, and which of them does not come back."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..evidence.basics import Place
from ..evidence.finding import Symptom
from ..evidence.live import Frame, Seen, Stack
from ..evidence.loader import CALLBACK, HTTP, LOGGER, Call, Gap, Loader, LoaderState, Logger, Part
from ..evidence.process import Failure, Process, Saved
from ..wording.printable import quoted_line
from ..wording.text import duration, many, short
from .case import Case, once
from .glances import glances_of, lines_of
from .loading import waiting
from .ranks import Stand, unfinished
from .shares import Alone, alone
from .stacks import OWN, doing
from .standstill import BUSY, LONG, asleep, descendants, mains

# What calls into loggers cost a run: in its loops, between its epochs, and a call that does not return.
LOGGING = (LOGGER, HTTP)
MEDIA, HISTOGRAMS, REQUEST, SCALARS = "media", "histograms", "request", "scalars"
HISTOGRAM_NAMES = ("wandb.watch", "wandb.Histogram", "add_histogram", "add_histogram_raw")
MEDIA_NAMES = (
    "wandb.", "add_image", "add_figure", "add_video", "add_audio", "add_embedding", "add_mesh", "add_graph",
    "log_image", "log_figure", "log_table", "log_artifact",
)  # fmt: skip
SCALAR_NAMES = ("wandb.log", "wandb.save")
OFTEN = 0.1  # of the steps: what is called more seldom need not be called by the loop
SITES = 6  # lines that are told one by one
BURSTS = ("wandb.Table.add_data",)  # calls that are counted together: what follows closely on each other is one
WATCH = "wandb.watch"
SLOW_SERVER = 60.0  # seconds: most servers that answer at all have done so by then
TIMES_THE_LONGEST = 3  # what the longest so far took: a call may take longer than ever
SENDS = 4096  # bytes a second: signs of life, and questions to a process beside, are a few hundred


class Loop(NamedTuple):
    """What the loop over one loader, or over anything else, spent in loggers, without the longest call of each line.

    The first call of a line often sets something up: that is no cost of a step, and no time of the loop either.
    """

    main: Process
    loader: Loader | None
    parts: list[Part]  # the most costly first
    spent: float  # seconds, as far back as the recording has details
    steps: int  # that these are of
    looped: float  # seconds that these steps took, waiting for their batches included, without what is left aside
    aside: float = 0.0  # seconds: the longest call of each line

    @property
    def share(self) -> float:
        return self.spent / self.looped if self.looped else 0.0

    @property
    def each(self) -> float:
        """Seconds a step."""
        return self.spent / self.steps if self.steps else 0.0

    @property
    def rest(self) -> float:
        """Seconds a step that go into everything else."""
        return max(self.looped - self.spent, 0.0) / max(self.steps, 1)


def loops(case: Case) -> Iterator[Loop]:
    for main in case.mains:
        for loader in main.loaders:
            parts = [one for one in loader.between if one.what in LOGGING]
            steps, bodies = loader.between_of.count, loader.between_of.total
            if parts and steps:
                waits = waiting(loader)
                yield _loop(main, loader, parts, steps, bodies + waits.waited / max(waits.steps, 1) * steps)
        if not any(one.batches for one in main.loaders):
            yield from _by_steps(main)


def _by_steps(main: Process) -> Iterator[Loop]:
    """Where batches come from something else than a DataLoader, the optimizer's steps are the loop."""
    first, last = main.first_step, main.last_step
    if first is None or last is None or main.optimizer_steps < 2:
        return
    calls = [one for one in main.calls if one.what in LOGGING and first <= one.last and one.timing.count > 1]
    calls = [one for one in calls if one.timing.count >= main.optimizer_steps * OFTEN]
    parts = [Part(one.what, one.name, one.timing.total, one.timing.count, one.where) for one in calls]
    if parts:
        yield _loop(main, None, parts, main.optimizer_steps, last - first)


def _loop(main: Process, loader: Loader | None, parts: list[Part], steps: int, took: float) -> Loop:
    aside = sum(min(_longest(main, one), one.seconds) for one in parts)
    spent = sum(one.seconds for one in parts) - aside
    return Loop(main, loader, parts, spent, steps, max(took - aside, spent), aside)


def _longest(main: Process, part: Part) -> float:
    same = [one.timing.longest for one in main.calls if (one.name, one.where) == (part.name, part.where)]
    return max(same, default=0.0)


def to_change(main: Process, part: Part) -> Place | None:
    """The line to change: histograms are computed in the backward pass, but asked for where `watch` was called."""
    watched = [one for one in main.calls if one.name == WATCH and one.where is not None and one.at]
    first = min(watched, key=lambda one: one.at, default=None) if part.name == WATCH else None
    return first.where if first is not None else part.where


def epoch(loader: Loader) -> int | None:
    """Batches of one epoch."""
    return loader.length or max((one.batches for one in loader.ended), default=0) or None


def kind_of(part: Part | Call) -> str:
    """What it had to do: that decides what helps."""
    name = part.name.rpartition("SummaryWriter.")[2].rpartition("mlflow.")[2]
    if part.what == HTTP:
        return REQUEST
    if name in HISTOGRAM_NAMES:
        return HISTOGRAMS
    return MEDIA if name.startswith(MEDIA_NAMES) and not name.startswith(SCALAR_NAMES) else SCALARS


def library(name: str) -> str:
    """wandb for wandb.log, tensorboard for SummaryWriter.add_image, nothing for a plain request."""
    first = name.partition(".")[0]
    return {"SummaryWriter": "tensorboard"}.get(first, first) if "." in name and " " not in name else ""


def site(part: Part) -> str:
    """train.py:30 (fit): wandb.log 300 times, 120 ms each, 36 s."""
    spot = (
        f"{part.where.file}:{part.where.line} ({part.where.function})"
        if part.where
        else "no line of the training's own code"
    )
    each = part.seconds / max(part.count, 1)
    times = many(part.count, "burst" if part.name in BURSTS else "call")
    return f"{spot}: {part.name}, {times} of {duration(each)}, {duration(part.seconds)} in all"


def sites(parts: list[Part]) -> Iterator[str]:
    yield from (site(one) for one in parts[:SITES])
    if len(parts) > SITES:
        rest = sum(one.seconds for one in parts[SITES:])
        yield f"{many(len(parts) - SITES, 'more line')}, {duration(rest)} in all"


def at_boundaries(loader: Loader) -> list[tuple[Gap, float]]:
    """What loggers took of each time between two epochs."""
    return [(gap, sum(one.seconds for one in gap.parts if one.what in LOGGING)) for gap in loader.boundaries]


def modes(main: Process) -> str:
    """wandb is online (https://api.wandb.ai), tensorboard writes to /runs."""
    return ", ".join(_mode(one) for one in {one.name: one for one in main.loggers}.values())


def _mode(logger: Logger) -> str:
    place = logger.address or logger.folder
    spot = f" ({place})" if place else ""
    return f"{logger.name} is {logger.mode}{spot}" if logger.mode else f"{logger.name} writes to {place or 'a file'}"


class HungCall(NamedTuple):
    """A call into a logger that has not returned."""

    main: Process
    call: Call
    seconds: float

    @property
    def where(self) -> Place | None:
        return self.call.where

    @property
    def spot(self) -> str:
        return f" at {short(self.call.where)}" if self.call.where else " at its exit"

    @property
    def symptom(self) -> Symptom:
        """A server that is asked may still answer; a logger gives its values away and does not wait for any."""
        return Symptom.WAITING if self.call.what == HTTP else Symptom.STUCK


def hung_calls(case: Case) -> Iterator[HungCall]:
    """Calls that were open when the run was looked at, for much longer than any before, and did nothing."""
    looked = case.looked_at
    for main in case.mains if looked is not None else ():
        seen = next((one for one in case.processes or () if one.pid == main.pid), None)
        for one in main.calls:
            if one.what in LOGGING and one.since is not None and looked is not None:
                seconds, enough = (
                    looked - one.since,
                    max(LONG, TIMES_THE_LONGEST * one.timing.longest, _call_patience(one)),
                )
                if seconds >= enough and not (seen and gets_on(case, seen)):
                    yield HungCall(main, one, seconds)


def _call_patience(call: Call) -> float:
    """Whether a server is dead or only slow cannot be seen from here."""
    return SLOW_SERVER if call.what == HTTP else 0.0


def gets_on(case: Case, seen: Seen) -> bool:
    """It computes or sends, by itself or through a process of the logger's: slow, but making progress."""
    helpers = [one for one in descendants(case, seen.pid) if one.role not in ("worker", "watcher")]
    sends = any(one.written > SENDS * max(one.looked, 1.0) for one in (seen, *helpers))
    return sends or (seen.looked > 0 and seen.main_task.cpu > BUSY * seen.looked)


def without_wandb(case: Case) -> str:
    """The same run with wandb switched off: if it is as slow or stuck as before, wandb was not the cause."""
    return f"WANDB_MODE=disabled unstuck run -- {quoted_line(case.run.command) or 'python train.py'}"


# Hooks of callbacks and of models: what they cost a training, and one that does not come back.
LONGEST_SLEEP = 60.0  # seconds: longer than anybody sleeps on purpose
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


def met_at(case: Case, one: Spent) -> Place | None:
    """The line at which the watcher met the main thread most often in these times, if that is inside of the hook."""
    glances = [
        each for gap in one.loader.boundaries for each in glances_of(case, one.main, gap.at, gap.at + gap.seconds)
    ]
    found = [where for where, _ in lines_of(glances)]
    return next(iter(found), None)


class HungHook(NamedTuple):
    """A hook that has not returned."""

    main: Process
    call: Call
    seconds: float
    stack: Stack
    seen: Seen


@once
def hung_hook(case: Case) -> HungHook | None:
    """It goes on for much longer than ever, in code of its own, and does nothing."""
    looked = case.looked_at
    for seen, stack in mains(case) if looked is not None else ():
        main = case.process(seen.node, seen.pid)
        call = open_hook(main, stack.calls) if main is not None else None
        if main is None or call is None or call.since is None or looked is None or doing(stack) != OWN:
            continue
        seconds = looked - call.since
        enough = max(LONG, TIMES_THE_LONGEST * call.timing.longest, _hook_patience(seen))
        if seconds >= enough and not gets_on(case, seen) and not _logs(main):
            return HungHook(main, call, seconds, stack, seen)
    return None


def _hook_patience(seen: Seen) -> float:
    """A sleep ends by itself, and one that is begun again and again may well be work: a hook has much of it."""
    return LONGEST_SLEEP if asleep(seen.main_task) else 0.0


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


def in_hook(case: Case, seen: Seen) -> bool:
    main = case.process(seen.node, seen.pid)
    return main is not None and open_hook(main, []) is not None


@once
def alone_in_hook(case: Case) -> tuple[Alone, Call] | None:
    """A collective that only some ranks call, and that they call from inside of a hook."""
    found = alone(case)
    main = found.who.process if found is not None else None
    if found is None or main is None:
        return None
    first, waits_in = found.parting.first, unfinished(main)
    # Where it went on after that call, its frames are those of another, which may be in another hook.
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


# Questions about what was saved: what it cost the training, and why it could not be.
NEARLY = 1 << 20  # bytes: what is left of a disk that is full, because the next piece to be written is larger
WRITERS = ("inline_container", "PytorchStreamWriter", "iostream error", "Not enough free space to write")
DISK, FILES, QUOTA, LIMIT = (
    "the disk is full",
    "the disk has no free inodes",
    "the disk quota is used up",
    "the file size limit was reached",
)
TEXTS = ("No space left on device", "Disk quota exceeded", WRITERS[-1])
SHORT = re.compile(r"\d+ requested and \d+ written")  # numpy, of a file that took less than it was given
SHARED = ("shared memory", "/torch_", "/dev/shm")
NO_ROOM = "checkpoint-disk-full"


class Held(NamedTuple):
    """What saving held up the training for, in one process."""

    process: Process
    saves: list[Saved]  # after which training went on

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self.saves)

    @property
    def written(self) -> int | None:
        """Bytes; None: of one or more it is not known."""
        sizes = [one.size for one in self.saves]
        return None if None in sizes or not sizes else sum(size or 0 for size in sizes)


def held(process: Process) -> Held:
    """The last one of a run, with no step after it, holds nothing up."""
    last = last_trained(process)
    return Held(process, [one for one in process.saved if not one.failed and one.at + one.seconds < last])


def last_trained(process: Process) -> float:
    """When the newest step ended, or the newest batch came."""
    batches = [one.now_since for one in process.loaders if one.now == LoaderState.IN_BODY]
    ended = [each.at for one in process.loaders for each in one.ended]
    return max([process.last_step or 0.0, *batches, *ended])


def refused(one: Saved, usual: int | None) -> str:
    """Why there was no room for it; "": it failed for another reason, or that does not show.

    torch's own writer tells no reason at all: then the state of the disk right after it does.
    """
    text = " ".join([one.failed, *one.causes])
    code = one.errno or next(
        (code for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) if os.strerror(code) in text), 0
    )
    if code == errno.EDQUOT:
        return QUOTA
    if code == errno.EFBIG:
        return LIMIT
    if code and code != errno.ENOSPC:
        return ""
    if code or any(part in text for part in WRITERS):
        return _by_its_state(one, usual) or (DISK if code else "")
    return ""


def _by_its_state(one: Saved, usual: int | None) -> str:
    if one.limit is not None and (one.size or 0) >= one.limit:
        return LIMIT
    if one.files == 0:
        return FILES
    if one.free is None:
        return ""
    short = usual is not None and one.free + (one.size or 0) < usual
    return DISK if one.free < NEARLY or short else ""


def usual_size(process: Process, failed: Saved) -> int | None:
    """Bytes of the newest that was saved from the same line before."""
    before = [one for one in process.saved if not one.failed and one.size and one.where == failed.where]
    return before[-1].size if before else None


def without_room(failure: Failure) -> bool:
    """Semaphores and shared tensors are files too, in /dev/shm: these are another rule's business."""
    text = _text(failure)
    shared = any(part in text for part in SHARED) or failure.shm_free == 0
    shared = shared or any("/multiprocessing/" in frame.file for frame in failure.frames[-4:])
    return (says_why(failure) or SHORT.fullmatch(failure.message.strip()) is not None) and not shared


def says_why(failure: Failure) -> bool:
    """In the system's own words."""
    return any(part in _text(failure) for part in TEXTS)


def _text(failure: Failure) -> str:
    return " ".join([failure.message, *(message for _, message in failure.causes)])


@once
def half_written(case: Case) -> set[str]:
    """Files that there was no room for: what is there of them is no damage, but how far writing them came."""
    found: set[str] = set()
    for process in case.mains:
        found |= {one.path for one in process.saved if one.failed and refused(one, usual_size(process, one))}
        failure = process.failure
        found |= set(failure.paths) if failure is not None and without_room(failure) else set()
    return {os.path.join(case.run.cwd, one) for one in found}
