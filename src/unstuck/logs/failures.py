"""How exceptions, exits and findings are put into the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..evidence.finding import Finding, Symptom
from ..report import Report
from ..wording.text import ending
from .files import ERROR, INFO, WARNING, Line

GRAVE = (Symptom.CRASHED.value, Symptom.STUCK.value)


def failed(whose: str, at: float, said: dict[str, Any], *, iterable: bool) -> Line:
    """An exception that a process wrote down, with the sample or file it was about."""
    about = _about(said, iterable=iterable)
    frames = said.get("frames") or []
    where = f" at {frames[-1].get('file')}:{frames[-1].get('line')}" if frames else ""
    return Line(at, ERROR, "error", f"❌ {whose} {about}: {_words(said)}{where}", key=True)


def _about(said: dict[str, Any], *, iterable: bool) -> str:
    paths = said.get("paths") or []
    path = f" {paths[0]}" if paths else ""
    file = f" (with the file{path})" if path else ""
    if said.get("how") == "uncaught":
        return f"Uncaught exception{file}"
    if said.get("how") == "exit":
        return f"Exception before sys.exit(){file}"
    if said.get("how") == "thread":
        return f"Uncaught exception in thread {said.get('thread')}"
    if said.get("how") == "feeder":
        return "Error sending a batch to the main process"
    what = "Error collating" if said.get("collating") else "Error reading"
    batch = f" of batch {said['batch']}" if said.get("batch") is not None else ""
    if iterable:
        place = f" after sample {said['position']}" if said.get("position") is not None else ""
        return f"{what} shard{path or ' (unknown file)'}{place}"
    return f"{what} sample {said.get('index')}{batch}{f' ({path.strip()})' if path else ''}"


def _words(said: dict[str, Any]) -> str:
    """The first line of the message, and its last: a worker's exception has a whole traceback in between."""
    lines = str(said.get("message") or "").strip().splitlines()
    text = lines[0] if lines else ""
    if len(lines) > 1:
        text += f" … {lines[-1].strip()}"
    return f"{said.get('type')}: {text}" if text else str(said.get("type"))


def worker_ended(whose: str, at: float, pid: int, status: int) -> Line:
    return Line(at, ERROR, "error", f"❌ {whose} worker (pid {pid}) {ending(status)}", key=True)


def found(report: Report, at: float) -> list[Line]:
    """The verdict, cause by cause."""
    roots = [one for one in report.findings if one.role == "root"]
    lines = [line for one in roots for line in _finding(one, report.findings, at)]
    if not roots:
        told = report.unsettled or ["no rule has found a cause"]
        told = ["healthy: nothing found"] if report.state == "healthy" else told
        lines += [Line(at, INFO, "verdict", one) for one in told]
    return lines + [Line(at, WARNING, "verdict", f"⚠️ {note}") for note in report.notes]


def _finding(one: Finding, others: list[Finding], at: float) -> list[Line]:
    grave = one.symptom in GRAVE
    level, sign = (ERROR, "❌") if grave else (WARNING, "⚠️")
    whose = f"[Rank {one.rank}] " if one.rank is not None else ""
    lines = [Line(at, level, "verdict", f"{sign} {whose}{one.symptom}: {one.cause} ({one.rule})")]
    return lines + [Line(at, INFO, "verdict", f"- {text}") for text in _details(one, others)]


def _details(one: Finding, others: list[Finding]) -> Iterator[str]:
    """With the labels of the block on the screen."""
    for label, remedy in [("fix", one.remedy), *(("or", other) for other in one.alternatives)]:
        yield f"{label}: {remedy.text}"
        yield from (f"| {line}" for line in remedy.code)
        yield from (f"$ {command}" for command in remedy.commands)
    yield from (f"why: {seen}" for seen in one.seen)
    if one.saw:
        yield f"saw: {one.saw}"
    yield from (f"so: {other.cause} ({other.rule})" for other in others if other.because_of == one.rule)
