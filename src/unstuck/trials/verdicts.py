"""What came of a trial, as a rung of the ladder: passed, failed or left out, and why."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import msgspec

from ..analysis.case import is_users, user_line
from ..analysis.trials import root_of
from ..evidence import Evidence
from ..evidence.basics import Place
from ..evidence.finding import Finding, Symptom
from ..evidence.process import Failure, Process
from ..evidence.trial import FAIL, PASS, SKIP, Rung
from ..wording.text import duration, ending, many, said, short, size
from .attempt import Limits, Outcome
from .ladder import Step

PLAIN = "uncaught-exception"  # a rule that says no more than the exception itself
OURS = str(Path(__file__).parent / "child")
INSIDE = str(Path(__file__).parents[1] / "inside")
FILES = r"(?:loaders|passes|stopping|ranks|samples|collate|benchmark|request|trial)\.py"
LAST_LINE = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Iteration)\b.*", re.MULTILINE)


def skipped(step: Step, reason: str) -> Rung:
    return Rung(step.name, step.title, SKIP, reason)


def rung_of(step: Step, outcome: Outcome, limits: Limits, created: Place | None) -> Rung:
    findings = [_placed(one, created) for one in outcome.report.findings] if outcome.report is not None else []
    if outcome.done and outcome.status:
        findings = [one for one in findings if one.symptom != Symptom.CRASHED.value]
    failure = failure_of(outcome)
    passed = (outcome.done and outcome.ended == "itself") or _measured_enough(step, outcome)
    facts = outcome.facts
    counts = facts.get("batches") or [one["batches"] for one in facts.get("ranks", ())]
    return Rung(
        name=step.name,
        title=step.title,
        status=PASS if passed else FAIL,
        reason="" if passed else reason_of(outcome, findings, failure, limits),
        seconds=round(outcome.seconds, 3),
        workers=facts.get("workers"),
        batches=sum(counts),
        samples=len(facts.get("samples", ())),
        peak=outcome.peak.total,
        exit=outcome.status,
        ended=outcome.ended,
        failure=None if passed else failure,
        traceback="" if passed else from_users(facts.get("traceback", "")),
        findings=findings,
        folder=str(outcome.folder),
    )


def _measured_enough(step: Step, outcome: Outcome) -> bool:
    """A benchmark that took too long has not failed, if it came so far as to say something."""
    return step.name == "benchmark" and outcome.ended == "time" and bool(outcome.facts.get("alone"))


def reason_of(outcome: Outcome, findings: list[Finding], failure: Failure | None, limits: Limits) -> str:
    """The cause that a rule has found; else what was raised, how it ended, or where it stood."""
    if outcome.ended == "memory":
        return f"ended by unstuck at {size(outcome.peak.total)}: it may use {size(limits.memory or 0)} (--memory)"
    root = root_of(findings)
    if root is not None and (failure is None or root.rule != PLAIN):
        return root.cause
    if failure is not None and outcome.ended == "itself":
        return raised(failure)
    return _ended(outcome, limits)


def _ended(outcome: Outcome, limits: Limits) -> str:
    if outcome.ended == "time":
        return f"not through after {duration(limits.seconds)} (--limit); {standing(outcome)}"
    if outcome.ended == "stall":
        return f"no progress for {duration(limits.stall)}: {standing(outcome)}"
    if outcome.status is None:
        return "it ended and nobody saw how"
    last = LAST_LINE.findall(outcome.facts.get("traceback", ""))
    return last[-1] if last else f"its process {ending(outcome.status)}"


def raised(failure: Failure) -> str:
    """ValueError: cannot decode, at data.py:31 (index 37, /data/037.jpg)."""
    place = user_line(failure)
    at = f", at {short(place)}" if place is not None and is_users(place) else ""
    index = [f"index {failure.index}"] if failure.index is not None else []
    about = ", ".join([*index, *failure.paths[:1]])
    return f"{said(failure)}{at}{f' ({about})' if about else ''}"


def standing(outcome: Outcome) -> str:
    """What it was doing when it was ended."""
    facts = outcome.facts
    if facts.get("index") is not None:
        return f"loading the sample with index {facts['index']}"
    if facts.get("doing"):
        return f"{facts['doing']} the target"
    if facts.get("during"):
        return {"sample": "loading the samples of a batch", "collate": "in collate_fn"}.get(
            facts["during"], str(facts["during"])
        )
    doing = [one.doing for one in outcome.report.activities] if outcome.report is not None else []
    batches = sum(facts.get("batches") or [0])
    return f"{doing[0] if doing else 'nothing is known of it'}; {many(batches, 'batch')} had come"


def failure_of(outcome: Outcome) -> Failure | None:
    """The first exception that a process of the trial left, with the sample that was being loaded."""
    evidence = outcome.report.evidence if outcome.report is not None else None
    failure = _first(evidence.recording or []) if isinstance(evidence, Evidence) else None
    if failure is None:
        return None
    facts: dict[str, Any] = outcome.facts
    if facts.get("index") is not None:
        paths = list(dict.fromkeys([*failure.paths, *facts.get("files", ())]))
        return msgspec.structs.replace(failure, index=facts["index"], paths=paths)
    return msgspec.structs.replace(failure, collating=failure.collating or facts.get("during") == "collate")


def from_users(traceback: str) -> str:
    """Without the calls of ours."""
    head, *calls = re.split(r"(?m)^(?=  File )", traceback)
    return head + "".join(_without_call(one) if _is_ours(one) else one for one in calls)


def _without_call(call: str) -> str:
    """What follows it: the exception itself, another traceback."""
    return "".join(itertools.dropwhile(lambda line: line.startswith(" "), call.splitlines(keepends=True)))


def _is_ours(call: str) -> bool:
    head = call.partition("\n")[0]
    return f'"{OURS}' in head or f'"{INSIDE}' in head or "importlib" in head


def _first(recorded: list[Process]) -> Failure | None:
    """A worker's own, before what the main process makes of it."""
    workers = [one for process in recorded if process.role == "worker" for one in process.failures]
    mains = [one for process in recorded if process.role != "worker" for one in process.failures]
    return min(workers, key=lambda one: one.at, default=None) or min(mains, key=lambda one: one.at, default=None)


def _placed(finding: Finding, created: Place | None) -> Finding:
    """A loader that a trial has made again is still the one of the user's line."""
    where = finding.where
    if where is not None and where.file.startswith(OURS):
        where = created
    texts = [_without_ours(one, created) for one in (finding.cause, finding.remedy.text, *finding.seen)]
    remedy = msgspec.structs.replace(finding.remedy, text=texts[1])
    return msgspec.structs.replace(finding, cause=texts[0], remedy=remedy, seen=texts[2:], where=where)


def _without_ours(text: str, created: Place | None) -> str:
    text = re.sub(rf"{re.escape(OURS)}/\S+\.py:\d+", short(created) or "the loader", text)
    text = re.sub(rf" < \w+ \({FILES}:\d+\)", "", text)
    return re.sub(rf" \({FILES}:\d+\)", f" ({short(created)})" if created is not None else "", text)
