"""What a slow or stuck run is often blamed on, and what costs it next to nothing: measured, and told once."""

from __future__ import annotations

from .between import LOGGER, Call
from .cleared_hooks import LITTLE, cleared
from .evidence import Evidence
from .loggers import library, without_wandb
from .phrases import duration, many, percent
from .progress import standstills
from .recorded import Process
from .report import Finding, Symptom
from .waiting import lasted

ENOUGH = 10  # calls
APART = ("wandb.init", "wandb.finish")  # before and after training


def acquitted(evidence: Evidence, findings: list[Finding]) -> list[str]:
    """Of a run that is slow or stuck for another reason, or for none that is known."""
    roots = [one for one in findings if one.role == "root"]
    holds = any(one.symptom in (Symptom.SLOW.value, Symptom.STUCK.value) for one in roots)
    if not (holds or standstills(evidence)):
        return []
    blamed = {one.subject.kind for one in roots if one.subject is not None}
    hooks = cleared(evidence, roots) if "callback" not in blamed else []
    return hooks + (_loggers(evidence) if "logger" not in blamed else [])


def _loggers(evidence: Evidence) -> list[str]:
    """One line for each library."""
    found: dict[str, str] = {}
    for main in evidence.mains():
        calls: dict[str, list[Call]] = {}
        for one in main.calls:
            if one.what == LOGGER and one.name not in APART:
                calls.setdefault(library(one.name), []).append(one)
        for name, own in calls.items():
            line = _line(evidence, main, name, own)
            if line:
                found.setdefault(name, line)
    return list(found.values())


def _line(evidence: Evidence, main: Process, name: str, calls: list[Call]) -> str:
    count = sum(one.timing.count for one in calls)
    spent = sum(one.timing.total for one in calls)
    ran = lasted(main)
    if count < ENOUGH or spent > LITTLE * ran or any(one.since is not None for one in calls):
        return ""
    mode = next((one.mode for one in reversed(main.loggers) if one.name == name), "")
    told = f"{name} ({mode})" if mode else name
    text = (
        f"{told} is not the cause: {many(count, 'call')} took {duration(spent / count)} each, {duration(spent)} in all"
    )
    text += f", {percent(spent / ran)} of the run"
    return f"{text}. To see for yourself: {without_wandb(evidence)}" if name == "wandb" else text
