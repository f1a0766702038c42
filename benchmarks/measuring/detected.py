"""From trials to rows: how long after the onset the cause was printed, and whether it was the right one."""

from __future__ import annotations

import fnmatch
import inspect
import statistics
from functools import cache

from unstuck.analysis.case import Case
from unstuck.demo.scenarios import all_scenarios
from unstuck.evidence import Evidence
from unstuck.evidence.finding import Symptom
from unstuck.rules.discovery import all_rules

STALLS, CRASHES, OTHERS, HEALTHY = "stalls", "crashes", "others", "healthy"
USUALLY = 1.0  # seconds: the target holds where the 99th percentile of what stands still is no longer
NEVER = 2.0  # seconds before its end in which a run that never stood still has had a batch
STOPPED = 124  # exit code of a run that was ended because it stood still
QUICK = (
    "worker-blocked-io",
    "worker-stopped",
    "stuck-in-user-code",
    "worker-killed",
    "uncaught-exception",
    "dataloader-bound",
    "worker-blocked-io-healthy",
    "healthy-compute-bound",
)


def kind_of(scenario):
    rule = all_rules().get(scenario.expect)
    if rule is None:
        return HEALTHY
    if rule.name in stuck_rules():
        return STALLS
    return CRASHES if rule.explains is Symptom.CRASHED else OTHERS


@cache
def stuck_rules():
    """Rules that explain a standstill, and those whose code may say of a run that it stands still."""
    rules = all_rules()
    files = {name: inspect.getsource(inspect.getmodule(rule.check)) for name, rule in rules.items()}
    may = [name for name, source in files.items() if "Symptom.STUCK.value" in source]
    return {name for name, rule in rules.items() if rule.explains is Symptom.STUCK} | set(may)


def chosen(patterns, *, quick, everything):
    """Scenarios to run, stalls first: hangs and the healthy runs beside them, or everything.

    Without a `*`, a pattern may stand anywhere in the name. Checked data and loaders that are only tried are no runs.
    """
    order = (STALLS, CRASHES, OTHERS, HEALTHY)
    found = [one for one in all_scenarios().values() if not one.trial and not one.check]
    if patterns:
        found = [one for one in found if any(matches(one.name, pattern) for pattern in patterns)]
    elif quick:
        found = [one for one in found if one.name in QUICK]
    elif not everything:
        found = [one for one in found if kind_of(one) == STALLS or _is_neighbour(one)]
    return sorted(found, key=lambda one: (order.index(kind_of(one)), one.name))


def _is_neighbour(scenario):
    """A healthy run that looks like a hang: by the name of its rule or scenario; or like nothing in particular."""
    if kind_of(scenario) != HEALTHY:
        return False
    beside = all_scenarios().get(scenario.name.removesuffix("-healthy"))
    return scenario.name.startswith("healthy-") or (beside is not None and kind_of(beside) == STALLS)


def matches(name, pattern):
    return fnmatch.fnmatch(name, pattern if "*" in pattern else f"*{pattern}*")


def row(trial):
    """One scenario's line of the table."""
    kind = kind_of(trial.scenario)
    about = {"name": trial.scenario.name, "kind": kind, "expect": trial.scenario.expect}
    if trial.skipped or trial.failed:
        return {**about, "says": f"not run: {trial.skipped}" if trial.skipped else f"not measured: {trial.failed}"}
    right = trial.verdict == trial.scenario.expect
    kind = about["kind"] = _shown(trial, kind) if right else kind
    about |= {"verdict": trial.verdict, "right": right, "code": trial.code}
    return about | {STALLS: _stall, HEALTHY: _healthy}.get(kind, _told_at_the_end)(trial)


def _shown(trial, kind):
    """What the run showed, where its rule knows several: a rank that hangs may also be ended by its time limit."""
    roots = [one for one in trial.report.findings if one.role == "root"]
    symptom = roots[0].symptom if roots else ""
    if kind == STALLS and _never_stood(trial.report):
        return OTHERS
    shown = {Symptom.STUCK.value: STALLS, Symptom.WAITING.value: STALLS, Symptom.CRASHED.value: CRASHES}
    return shown.get(symptom, OTHERS if roots else kind)


def _never_stood(report):
    """Batches came until it was ended: an epoch without an end is no standstill, and is told afterwards."""
    evidence = report.evidence
    if not isinstance(evidence, Evidence):
        return False
    case = Case(evidence)
    ends = [seen.at for seen in case.exits or () if case.is_command(seen.node, seen.pid)]
    newest = max((loader.now_since for main in case.mains for loader in main.loaders), default=None)
    return bool(ends) and evidence.stall is None and newest is not None and newest >= min(ends) - NEVER


def _stall(trial):
    """Last progress, the look, the printed cause."""
    report, printed = trial.report, trial.told()
    stall = getattr(report.evidence, "stall", None)
    roots = [one for one in report.findings if one.role == "root"]
    onset = stall.since if stall else next((one.onset_s for one in roots if one.onset_s is not None), None)
    called = [state for _, state, _ in trial.blocks()]
    found = {"healthy": report.state == "healthy" or "healthy" in called, "state": report.state}
    if printed is None or onset is None:
        return {**found, "seconds": None, "held": True, "note": "not told while it stood still"}
    patient = bool(roots) and roots[0].symptom == Symptom.WAITING.value
    return {
        **found,
        "seconds": printed - report.run.started - onset,
        "looked_after": stall.seconds if stall else None,
        "usual": stall.usual if stall else None,
        "held": not patient and (stall is None or stall.usual is None or stall.usual <= USUALLY),
    }


def _told_at_the_end(trial):
    if trial.judged is not None:
        note = "by `unstuck why`: the watcher was killed with the run"
        return {"seconds": trial.judged - trial.ended, "held": True, "note": note}
    printed = trial.block()
    found = {"seconds": None if printed is None else printed - trial.ended, "held": True}
    return found | ({"note": "told while it ran"} if printed is not None and printed < trial.ended else {})


def _healthy(trial):
    """Anything found, anything told before the end, and a run that was ended for it, is a false alarm."""
    early = trial.block(live=True) is not None
    alarms = [one.rule for one in trial.report.findings] + ["told while it ran"] * early
    alarms += ["stopped"] * (trial.code == STOPPED)
    looks = sum("[unstuck] no progress for" in line.text for line in trial.lines)
    return {"alarms": alarms, "looks": looks}


def summary(rows, kind):
    """Of one kind: how many were run and judged right, and the seconds that count against the target."""
    of_kind = [one for one in rows if one["kind"] == kind and "says" not in one]
    held = [one["seconds"] for one in of_kind if one.get("seconds") is not None and one["held"]]
    return {
        "runs": len(of_kind),
        "right": sum(one["right"] for one in of_kind),
        "median": statistics.median(held) if held else None,
        "worst": max(held, default=None),
        "timed": len(held),
        "patient": sum(not one.get("held", True) for one in of_kind),
        "looked_into": sum(one.get("looks", 0) > 0 for one in of_kind),
        "untold": sum(one.get("seconds", 0) is None for one in of_kind),
        "healthy": sum(one.get("healthy", False) for one in of_kind),
        "alarms": sum(bool(one.get("alarms")) for one in of_kind),
    }


def wrong(rows):
    return [
        one for one in rows if not one.get("right", True) or one.get("alarms") or "not measured" in one.get("says", "")
    ]
