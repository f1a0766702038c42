"""The flow on one screen: gather evidence of a run, let the rules judge it, report."""

from __future__ import annotations

from pathlib import Path

from . import __version__
from .model.evidence import Evidence
from .model.questions import newest_loader
from .model.report import Activity, NotChecked, Overhead, Report, RunName, Symptom
from .model.rule import Judgement
from .probes import folder as run_folder
from .probes import journal
from .rules.engine import judge, rank_findings

ENOUGH = 100  # steps or samples: over fewer, what is done once at the start is all there is
A_WHILE = 1.0  # seconds of looping, for the same reason


def diagnose(folder: str | Path) -> Report:
    """The verdict on a run folder, live or afterwards."""
    return report_on(gather(Path(folder)))


def gather(folder: Path) -> Evidence:
    """Look at everything a run folder holds. What could not be looked at stays None."""
    run = run_folder.run_of(folder)
    recorded = run_folder.recordings_of(folder, run)
    hosts, exits = journal.look(folder)
    return Evidence(
        run=run,
        recording=recorded.processes or None,
        exits=recorded.exits + exits if recorded.processes or exits else None,
        host=hosts or None,
        unreadable=recorded.unreadable,
    )


def report_on(evidence: Evidence) -> Report:
    """Judge evidence, also evidence that was saved long ago."""
    judgements = judge(evidence)
    findings = rank_findings(judgements)
    return Report(
        unstuck=__version__,
        run=RunName(evidence.run.id, evidence.run.command, evidence.run.started, evidence.run.host),
        state=_state([one.symptom for one in findings if one.role == "root"], evidence),
        findings=findings,
        activities=_activities(evidence),
        not_checked=_not_checked(judgements),
        overhead=_overhead(evidence),
        notes=_notes(evidence, judgements),
        evidence=evidence,
    )


def _state(roots: list[str], evidence: Evidence) -> str:
    if roots:
        return min(roots, key=lambda symptom: Symptom(symptom).weight)
    recorded = evidence.recording or []
    looked = bool(recorded) and not any(one.adapters_failed for one in recorded) and not evidence.unreadable
    return "healthy" if looked and evidence.run.status in (0, None) else "unknown"


def _activities(evidence: Evidence) -> list[Activity]:
    found = []
    for process in evidence.mains():
        newest = newest_loader(process)
        if newest is not None:
            found.append(
                Activity(
                    rank=process.rank,
                    doing=newest.now,
                    since_s=newest.now_since,
                    moving=process.alive,
                    have=newest.batches,
                    need=newest.length,
                    unit="batches",
                )
            )
        found += [
            Activity(process.rank, one.name, one.since, process.alive, one.have, one.need or None, one.unit)
            for one in process.progress
        ]
    return found


def _not_checked(judgements: list[Judgement]) -> list[NotChecked]:
    missing: dict[str, list[str]] = {}
    for judgement in judgements:
        for section in judgement.missing:
            missing.setdefault(section, []).append(judgement.rule)
    return [NotChecked(needs=section, rules=rules) for section, rules in sorted(missing.items())]


def _overhead(evidence: Evidence) -> Overhead:
    mains, workers = evidence.mains(), [one for one in evidence.recording or () if one.role == "worker"]
    batches = sum(loader.batches for one in mains for loader in one.loaders)
    samples = sum(fetching.samples for one in workers for fetching in one.fetching)
    spent = sum(one.cost.total for one in mains)
    looped = sum(loader.waits.total + loader.bodies.total for one in mains for loader in one.loaders)
    spent_in_workers = sum(one.cost.total for one in workers)
    return Overhead(
        total_ms=round((spent + spent_in_workers) * 1e3, 3),
        per_step_us=round(spent / batches * 1e6, 2) if batches >= ENOUGH else None,
        per_sample_us=round(spent_in_workers / samples * 1e6, 2) if samples >= ENOUGH else None,
        share_of_step=round(spent / looped, 6) if looped >= A_WHILE else None,
        longest_us=round(max((one.cost.longest for one in evidence.recording or ()), default=0.0) * 1e6, 1),
        recorded_bytes=sum(one.size for one in evidence.recording or ()),
    )


def _notes(evidence: Evidence, judgements: list[Judgement]) -> list[str]:
    """What a reader must know about the looking itself."""
    notes = list(evidence.unreadable)
    notes += [f"rule {one.rule} is broken: {one.error}" for one in judgements if one.verdict == "broken"]
    for process in evidence.recording or ():
        notes += [f"pid {process.pid}: adapter {failed}" for failed in process.adapters_failed]
    for host in evidence.host or ():
        notes += [f"{host.node}: {_unrecorded(name)}" for name in host.unrecorded]
    if evidence.recording is None:
        notes.append(
            "nothing was recorded: no process of this command imported torch where unstuck could see it "
            "(python -I, -E or -S, a container, or a wiped environment keep it out)"
        )
    return notes


def _unrecorded(name: str) -> str:
    import os

    _, pid, number = name.split("-")
    return f"pid {pid} went unrecorded ({os.strerror(int(number))})"
