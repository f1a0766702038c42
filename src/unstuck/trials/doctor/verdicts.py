"""What came of a trial, as a rung of the ladder: passed, failed or left out, and why.

`rung_of` judges by how the trial ended. `with_reason` says in a few words what it has seen, and knows what turns its
success into a failure, or the other way round.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...analysis.case import is_users, user_line
from ...evidence import Evidence
from ...evidence.basics import Place
from ...evidence.finding import Finding, Symptom
from ...evidence.process import Failure, Process
from ...evidence.trial import FAIL, PASS, SKIP, Rung
from ...report import root_of
from ...wording.text import duration, ending, many, said, short, size
from ..attempt import Limits, Outcome
from .ladder import TRIED_WORKERS, Step

if TYPE_CHECKING:
    from .climb import Climbed

PLAIN = "uncaught-exception"  # a rule that says no more than the exception itself
OURS = str(Path(__file__).parents[1] / "child")
INSIDE = str(Path(__file__).parents[2] / "inside")
FILES = r"(?:loaders|passes|ranks|samples|benchmark|request|trial)\.py"
LAST_LINE = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Iteration)\b.*", re.MULTILINE)
FORKS = "fork"
REFUSALS = ("wds-no-nodesplitter", "uncaught-exception", "worker-python-exception", "rank-crash-cascade")


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


def with_reason(step: Step, rung: Rung, outcome: Outcome, climbed: Climbed) -> Rung:
    if rung.status == FAIL:
        return {"spawn": _only_forked, "ranks": _only_alone}.get(step.name, lambda one, _: one)(rung, climbed)
    failed = _nothing_came(step, outcome.facts, climbed)
    if failed:
        return msgspec.structs.replace(rung, status=FAIL, reason=failed)
    return msgspec.structs.replace(rung, reason=_seen(step, outcome.facts, climbed))


def _measured_enough(step: Step, outcome: Outcome) -> bool:
    """A benchmark that took too long has not failed, if it came so far as to say something."""
    return step.name == "benchmark" and outcome.ended == "time" and bool(outcome.facts.get("alone"))


def reason_of(outcome: Outcome, findings: list[Finding], failure: Failure | None, limits: Limits) -> str:
    """The cause that a rule has found; else what was raised, how it ended, or where it was blocked."""
    if outcome.ended == "memory":
        return f"stopped by unstuck at {size(outcome.peak.total)}: {size(limits.memory or 0)} is allowed (--memory)"
    root = root_of(findings)
    if root is not None and (failure is None or root.rule != PLAIN):
        return root.cause
    if failure is not None and outcome.ended == "itself":
        return raised(failure)
    return _ended(outcome, limits)


def _ended(outcome: Outcome, limits: Limits) -> str:
    if outcome.ended == "time":
        return f"not finished after {duration(limits.seconds)} (--limit); {standing(outcome)}"
    if outcome.ended == "stall":
        return f"no progress for {duration(limits.stall)}: {standing(outcome)}"
    if outcome.status is None:
        return "its process ended, its exit code is unknown"
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
    return f"{doing[0] if doing else 'at an unknown place'}; {many(batches, 'batch')} so far"


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


def _only_forked(rung: Rung, climbed: Climbed) -> Rung:
    """The loader is used with fork, and works that way: that it cannot be spawned is a note, not a failure."""
    forked = [one for one in climbed.rungs if one.name in ("workers", "one-worker") and one.status == PASS]
    tried = any(one.name in ("workers", "one-worker") for one in climbed.rungs)
    rung = msgspec.structs.replace(rung, findings=[]) if tried else rung
    if not forked:
        return rung
    reason = f"works with {FORKS} only (not on macOS, on Windows, or with the default of Python 3.14): {rung.reason}"
    return msgspec.structs.replace(rung, status=SKIP, reason=reason)


def _only_alone(rung: Rung, climbed: Climbed) -> Rung:
    """A loader that refuses several ranks may not be meant for them. One that hangs or crashes there is at fault."""
    root = root_of(rung.findings)
    meant = climbed.loader is not None and climbed.loader.sampler == "DistributedSampler"
    if meant or rung.ended != "itself" or (root is not None and root.rule not in REFUSALS):
        return rung
    return msgspec.structs.replace(rung, status=SKIP, reason=f"for one rank only: {rung.reason}", findings=[])


def _nothing_came(step: Step, facts: dict[str, Any], climbed: Climbed) -> str:
    """It raised nothing, and yet there is no data."""
    if step.what == "samples" and not facts.get("samples"):
        return f"{_dataset(climbed)} yields no sample: it is empty"
    counts = facts.get("batches", [])
    if step.what == "passes" and counts and not counts[0]:
        return f"the loader yields no batch{_short_of_one(climbed)}"
    if step.name == "second-epoch" and len(counts) > 1 and counts[0] and not counts[1]:
        return f"the second epoch yields no batch, the first had {counts[0]:,}: its data can be read only once"
    ranks = facts.get("ranks", [])
    if any(not one["batches"] for one in ranks):
        empty = next(number for number, one in enumerate(ranks) if not one["batches"])
        return f"rank {empty} gets no batch, the other rank {max(one['batches'] for one in ranks)}"
    return ""


def _short_of_one(climbed: Climbed) -> str:
    loader = climbed.loader
    if loader is None or not loader.drop_last or not loader.dataset_length or not loader.batch_size:
        return ""
    return f": {loader.dataset_length} samples do not fill a batch of {loader.batch_size}, and drop_last=True drops it"


def _dataset(climbed: Climbed) -> str:
    return (climbed.loader.dataset if climbed.loader is not None else "") or "the dataset"


def _seen(step: Step, facts: dict[str, Any], climbed: Climbed) -> str:
    if step.what == "passes":
        return _passes(step, facts, climbed)
    if step.name == "benchmark":
        return climbed.measured.sentence
    says = {"construct": _loader, "samples": _samples, "collate": _batch, "stopping": _left, "ranks": _ranks}
    return says[step.what](facts)


def _batch(facts: dict[str, Any]) -> str:
    batch = facts["batch"]
    return f"{batch['shapes'] or 'no tensors'}; {size(batch['size'])} in {duration(facts['collated'])}"


def _left(facts: dict[str, Any]) -> str:
    return f"stopped in {duration(max(facts.get('left_in') or [0.0]))}, begun again"


def _loader(facts: dict[str, Any]) -> str:
    loader = facts["loader"]
    length = f" of {loader['dataset_length']:,} samples" if loader.get("dataset_length") is not None else ""
    workers = many(loader["num_workers"], "worker")
    return f"{facts['gave']}: {loader['dataset']}{length}, batch {loader['batch_size']}, {workers}"


def _samples(facts: dict[str, Any]) -> str:
    noted = facts["samples"]
    slowest = max(noted, key=lambda one: one["seconds"])
    shapes = noted[0].get("shapes") or "no tensors"
    if len(noted) == 1:
        return f"{shapes}; {size(noted[0]['size'])} in {duration(noted[0]['seconds'])}"
    middle = sorted(one["seconds"] for one in noted)[len(noted) // 2]
    longest = f"the slowest {duration(slowest['seconds'])} ({slowest['index']})"
    return f"{many(len(noted), 'sample')}, {duration(middle)} each, {longest}"


def _passes(step: Step, facts: dict[str, Any], climbed: Climbed) -> str:
    counts, ended = facts["batches"], facts.get("ended", [])
    whole = " (whole epoch)" if ended and all(ended) else ""
    with_workers = f", {many(facts['workers'], 'worker')}" if step.name in ("workers", "spawn") else ""
    if step.name == "workers" and climbed.loader is not None and not climbed.loader.num_workers:
        with_workers = f", {TRIED_WORKERS} workers tried: it is configured with 0"
    if len(counts) > 1:
        apart = all(ended) and counts[0] != counts[1]
        note = ": not the same number" if apart else ""
        return f"{counts[0]:,} and {counts[1]:,} batches{note}"
    return f"{many(counts[0], 'batch')}{whole}{with_workers}"


def _ranks(facts: dict[str, Any]) -> str:
    counts = [one["batches"] for one in facts["ranks"]]
    drawn = {"stream": "a stream"}.get(facts["drawn"], facts["drawn"])
    uneven = all(one["ended"] for one in facts["ranks"]) and len(set(counts)) > 1
    note = "; uneven: a training would wait at the end of the shorter one" if uneven else ""
    if len({one.get("first") or number for number, one in enumerate(facts["ranks"])}) < len(counts):
        note += "; both begin with the same batch: split the data by rank before you train on several"
    return f"{counts[0]:,} and {counts[1]:,} batches, {drawn}{note}"
