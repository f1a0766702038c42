"""Climbs the ladder: tries one rung after the other, and keeps what each shows."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import msgspec

from ...analysis.case import Case
from ...errors import UserError
from ...evidence.basics import Place
from ...evidence.loader import Loader
from ...evidence.trial import FAIL, PASS, Budget, Loaded, Rung, Settings, Target, Trial
from ...inside.redaction import redacted_values
from ...wording.printable import quoted
from ...wording.text import duration, ending
from ..attempt import Limits, Outcome, Work, attempt
from ..budget.advice import budget_of
from ..memory import room_in
from . import environment, limit
from .ladder import Step, options_of, reason_to_skip
from .verdicts import rung_of, skipped, with_reason

# In these the loader is changed: it gets forms that nobody uses, and a start or ranks that it may not be meant for.
OURS = ("benchmark", "ranks", "spawn")
STARTS = 12  # times that making the loader took: two passes with a few spawned workers, and some time to load


class Listener(Protocol):
    """Shows the progress."""

    def begins(self, step: Step) -> None: ...
    def goes_on(self, step: Step, seconds: float) -> None: ...
    def ended(self, rung: Rung) -> None: ...


class Asked(NamedTuple):
    """What the command line wants."""

    work: Work
    steps: list[Step]
    wishes: dict[str, Any]
    limits: Limits
    step_seconds: float | None = None  # of a training step that has to be fed
    patient: bool = False  # nobody has set the limit of time: where imports are slow, everything is
    memory: int | None = None  # that may be used, if somebody has said so


class Climbed:
    """What is known so far."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.rungs: list[Rung] = []
        self.gave = ""
        self.loader: Loader | None = None
        self.created: Place | None = None
        self.samples: list[Loaded] = []
        self.needs: dict[str, Any] = {}  # what memory depends on, as the samples rung has seen it
        self.measured = limit.Found()
        self.slowest_start = 0.0  # seconds that making the loader took, imports included

    @property
    def failed(self) -> set[str]:
        """Rungs that failed, and those that were left out for that."""
        return {one.name for one in self.rungs if one.status == FAIL or one.reason.startswith("after ")}


def climb(asked: Asked, settings: Settings, listener: Listener) -> Trial:
    climbed = Climbed(settings)
    for step in asked.steps:
        reason = reason_to_skip(step, climbed.loader, climbed.failed, settings.start_method)
        if reason:
            rung = skipped(step, reason)
        else:
            listener.begins(step)
            rung = _tried(step, asked, climbed, listener)
        climbed.rungs.append(rung)
        listener.ended(rung)
    return trial_of(asked, climbed)


def trial_of(asked: Asked, climbed: Climbed) -> Trial:
    found = climbed.measured
    return Trial(
        command="doctor",
        target=Target(asked.work.target, redacted_values(asked.work.kwargs), climbed.gave, climbed.loader),
        settings=climbed.settings,
        rungs=climbed.rungs,
        samples=climbed.samples,
        measured=found.measured,
        limit=found.limit,
        limit_seen=found.seen,
        differences=found.facts,
        budget=_budget(asked, climbed),
    )


def _budget(asked: Asked, climbed: Climbed) -> Budget | None:
    """What it would need with all its workers, for as long as a training takes: no trial comes to that."""
    if climbed.loader is None or not climbed.samples:
        return None
    there = room_in(climbed.settings, asked.memory)
    return budget_of(climbed.needs, climbed.loader, there, prefetch=asked.wishes.get("prefetch_factor"))


def _tried(step: Step, asked: Asked, climbed: Climbed, listener: Listener) -> Rung:
    if step.name == "environment":
        return environment.rung(step, climbed.settings)
    options = {**asked.wishes, **options_of(step, climbed.loader)}
    looks = limit.Looks(asked.work.folder / "trial-benchmark")
    if step.name == "benchmark":
        options |= limit.options(climbed.samples, asked.limits)

    def tick(seconds: float) -> None:
        listener.goes_on(step, seconds)
        if step.name == "benchmark":
            looks.take()

    limits = _limits(asked, climbed)
    outcome = attempt(step.what, step.name, asked.work, options, limits, tick)
    _refuse(asked.work.target, outcome)
    _learn(step, outcome, climbed)
    rung = rung_of(step, outcome, limits, climbed.created)
    if step.name == "benchmark" and rung.status == PASS:
        climbed.measured = limit.found(outcome, looks, climbed.settings, asked.step_seconds)
    if step.name in OURS and rung.status == PASS:
        rung = msgspec.structs.replace(rung, findings=[])
    return with_reason(step, rung, outcome, climbed)


def _limits(asked: Asked, climbed: Climbed) -> Limits:
    """Spawned workers import everything once more, one after the other where processors are few."""
    if not asked.patient:
        return asked.limits
    return asked.limits._replace(seconds=max(asked.limits.seconds, STARTS * climbed.slowest_start))


def _refuse(target: str, outcome: Outcome) -> None:
    """One that cannot even be imported is bad input, not a loader that fails."""
    if outcome.facts.get("doing") != "importing" or outcome.done:
        return
    where = target.rpartition(":")[0]
    if outcome.ended == "itself":
        how = ending(outcome.status) if outcome.status is not None else "ended"
        what = f"the interpreter {how} while it imported {where}"
        raise UserError(
            what, f"`python -X faulthandler {quoted(where)}` shows where: it has to be importable to be tried"
        )
    if outcome.ended == "memory":
        raise UserError(f"importing {where} takes more than --memory allows", "give it more, or load data later")
    what = f"{where} is not imported after {duration(outcome.seconds)}"
    remedy = 'put what trains, downloads or waits under `if __name__ == "__main__":`; --limit S gives it more time'
    raise UserError(what, remedy)


def _learn(step: Step, outcome: Outcome, climbed: Climbed) -> None:
    """The loader as it is configured, the line that makes it, and samples."""
    facts = outcome.facts
    if climbed.loader is None and "loader" in facts:
        climbed.gave, climbed.loader = facts["gave"], msgspec.convert(facts["loader"], Loader)
        climbed.created = _created(outcome)
        climbed.loader = msgspec.structs.replace(climbed.loader, created=climbed.created)
    if step.name == "construct" and outcome.done:
        climbed.slowest_start = outcome.seconds
    if step.what == "samples" and facts.get("samples"):
        climbed.samples = msgspec.convert(facts["samples"], list[Loaded])
        climbed.needs = facts


def _created(outcome: Outcome) -> Place | None:
    report = outcome.report
    if report is None or report.evidence is None or isinstance(report.evidence, str):
        return None
    made = [loader.created for main in Case(report.evidence).mains for loader in main.loaders]
    return next((one for one in made if one is not None), None)
