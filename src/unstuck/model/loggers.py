"""What calls into loggers cost a run: in its loops, between its passes, and one that does not come back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..wording.printable import quoted_line
from .between import HTTP, LOGGER, Call, Gap, Logger, Part
from .evidence import Evidence
from .finding import Symptom
from .look import Seen
from .phrases import duration, many, short
from .places import Place
from .recorded import Loader, Process
from .standing import BUSY, LONG, descendants
from .waiting import waiting

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
A_MINUTE = 60.0  # seconds: most servers that answer at all have done so by then
TIMES = 3  # what the longest so far took: a call may take longer than ever
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


def loops(evidence: Evidence) -> Iterator[Loop]:
    for main in evidence.mains():
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
    """Batches of one pass."""
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
    spot = f"{part.where.file}:{part.where.line} ({part.where.function})" if part.where else "no line of the user's"
    each = part.seconds / max(part.count, 1)
    times = many(part.count, "burst" if part.name in BURSTS else "call")
    return f"{spot}: {part.name}, {times} of {duration(each)}, {duration(part.seconds)} in all"


def sites(parts: list[Part]) -> Iterator[str]:
    yield from (site(one) for one in parts[:SITES])
    if len(parts) > SITES:
        rest = sum(one.seconds for one in parts[SITES:])
        yield f"{many(len(parts) - SITES, 'further line')} of the kind, {duration(rest)} in all"


def at_boundaries(loader: Loader) -> list[tuple[Gap, float]]:
    """What loggers took of each time between two passes."""
    return [(gap, sum(one.seconds for one in gap.parts if one.what in LOGGING)) for gap in loader.boundaries]


def modes(main: Process) -> str:
    """wandb is online (https://api.wandb.ai), tensorboard writes to /runs."""
    return ", ".join(_mode(one) for one in {one.name: one for one in main.loggers}.values())


def _mode(logger: Logger) -> str:
    place = logger.address or logger.folder
    spot = f" ({place})" if place else ""
    return f"{logger.name} is {logger.mode}{spot}" if logger.mode else f"{logger.name} writes to {place or 'a file'}"


class Standing(NamedTuple):
    """A call into a logger that has not come back."""

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


def never_back(evidence: Evidence) -> Iterator[Standing]:
    """Calls that went on when the run was looked at, for much longer than they ever took, and did nothing."""
    looked = evidence.looked_at
    for main in evidence.mains() if looked is not None else ():
        seen = next((one for one in evidence.processes or () if one.pid == main.pid), None)
        for one in main.calls:
            if one.what in LOGGING and one.since is not None and looked is not None:
                seconds, enough = looked - one.since, max(LONG, TIMES * one.timing.longest, _patience(one))
                if seconds >= enough and not (seen and gets_on(evidence, seen)):
                    yield Standing(main, one, seconds)


def _patience(call: Call) -> float:
    """Whether a server is dead or only slow cannot be seen from here."""
    return A_MINUTE if call.what == HTTP else 0.0


def gets_on(evidence: Evidence, seen: Seen) -> bool:
    """It computes or sends, by itself or through a process of the logger's: that takes its time, but does not stand."""
    helpers = [one for one in descendants(evidence, seen.pid) if one.role not in ("worker", "watcher")]
    sends = any(one.written > SENDS * max(one.looked, 1.0) for one in (seen, *helpers))
    return sends or (seen.looked > 0 and seen.main_task.cpu > BUSY * seen.looked)


def without_wandb(evidence: Evidence) -> str:
    """The same run with wandb switched off: if it is as slow or stuck as before, wandb was not the cause."""
    return f"WANDB_MODE=disabled unstuck run -- {quoted_line(evidence.run.command) or 'COMMAND'}"
