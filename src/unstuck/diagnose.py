"""The flow on one screen: gather evidence of a run, let the rules judge it, report."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from . import __version__
from .analysis import gil
from .analysis.case import Case
from .analysis.progress import standstills, trained
from .analysis.stages import stage_times
from .analysis.standstill import needs_patience
from .analysis.time_use import spending
from .errors import UserError
from .evidence import Evidence
from .evidence.data import Data
from .evidence.finding import Symptom
from .evidence.live import Seen, Stall
from .evidence.process import Process
from .evidence.trial import FAIL
from .probes import flight_recorder, live_run, owners, processes, run_files, run_history
from .probes.look import Look
from .probes.sampler import Tell
from .probes.source_code import line_at
from .report import Ahead, NotChecked, Overhead, Report, RunName, Training
from .reporting.activities import activities, meaning
from .reporting.bad_files import bad_files
from .reporting.bottleneck import bottleneck
from .reporting.errors_shown import with_errors
from .reporting.notes import acquitted, summary, unsettled
from .reporting.start import timeline, way_to_first_step
from .rules.discovery import all_rules
from .rules.engine import judge, rank_findings, tried
from .rules.rule import Judgement
from .wording.secrets import without_secrets
from .wording.settings import trainer_of

T = TypeVar("T")
ENOUGH = 10_000  # steps or samples: over fewer, what is done once at the start is all there is
A_WHILE = 1.0  # seconds of looping, for the same reason


def diagnose(folder: str | Path) -> Report:
    """The verdict on a run folder, live or afterwards."""
    folder = Path(folder)
    evidence = _asked(folder)
    report = report_on(evidence if evidence.run.status is None else _with_data(evidence, folder))
    return report if owners.is_anothers(folder) else _with_source(report)


def diagnose_run(folder: Path, tell: Tell) -> Report:
    """The same as `unstuck why RUN` gives it: while it goes on here, its processes are looked at, too."""
    try:
        pid = _living(folder)
        if pid is not None:
            return diagnose_live(pid, tell)
    except UserError:  # it has ended by now, or may not be looked at: what is recorded has to do
        pass
    return diagnose(folder)


def _living(folder: Path) -> int | None:
    """A main process of this run that is alive on this machine and writes into this very folder."""
    evidence = gather(folder)
    if evidence.run.status is not None:
        return None
    alive = [one.pid for one in Case(evidence).mains if one.alive and one.node == os.uname().nodename]
    for pid in alive[:1]:
        found = processes.run_folder(processes.run_of(pid)).folder
        if found is not None and found.exists() and found.samefile(folder):
            return pid
    return None


def _with_data(evidence: Evidence, folder: Path) -> Evidence:
    """What is named in a folder of another user is not opened with the rights of root."""
    if not owners.is_anothers(folder):
        return run_files.with_data(evidence)
    told = f"data files that {folder} names were not read: it belongs to another user; look as that user"
    return _left_out(evidence, told) if run_files.names_data(evidence) else evidence


def _left_out(evidence: Evidence, *told: str) -> Evidence:
    return msgspec.structs.replace(evidence, unreadable=[*evidence.unreadable, *told]) if told else evidence


def _with_saved(evidence: Evidence, folder: Path) -> Evidence:
    """Whether its checkpoints are there, as the folder's owner sees it."""
    recorded = evidence.recording or []
    owner = owners.owner_of_folder(folder) if owners.is_anothers(folder) else owners.ours()
    try:
        found = owners.as_owner(
            owner, lambda: run_files.with_checkpoints(recorded, live_run.now(evidence)), list[Process]
        )
    except owners.Refused as error:
        told = any(one.saved or one.saving for one in recorded)
        return _left_out(evidence, *([f"checkpoints of {folder} were not looked for: {error}"] if told else []))
    return msgspec.structs.replace(evidence, recording=found or None)


def _asked(folder: Path) -> Evidence:
    """What a run folder holds, with what those of its ranks say now that are alive here."""
    evidence = gather(folder)
    alive = [one.pid for one in evidence.recording or () if one.alive and one.group is not None]
    if not alive:
        return evidence
    answers = flight_recorder.ask(alive)
    return flight_recorder.added(gather(folder), answers)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Records by the thousand and no garbage: Python's collector would go through all of them again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_uncollected()
def gather(folder: Path) -> Evidence:
    """Look at everything a run folder holds. What could not be looked at stays None."""
    from .recordings import folder as run_folder  # with numpy: a run that was never recorded need not wait for it

    run = run_folder.run_of(folder)
    recorded = run_folder.recordings_of(folder, run)
    watched = run_history.journals(folder)
    exits = recorded.exits + watched.exits
    whole = run_history.settled_failures(Evidence(run=run, recording=recorded.processes, exits=exits))
    newest, earlier = run_history.split_attempts(whole.recording or [], exits)
    evidence = Evidence(
        run=run,
        recording=newest or None,
        attempts=earlier,
        exits=exits if newest or exits else None,
        host=watched.hosts or None,
        unreadable=recorded.unreadable + watched.unreadable,
    )
    return run_history.with_snapshot(_with_saved(evidence, folder), folder)


def diagnose_live(pid: int, tell: Tell, *, seconds: float = 0.0) -> Report:
    """The verdict on a run that is going on, by any pid of it. Prepared or not: both kinds of evidence are used."""
    pids = processes.run_of(pid)
    found = processes.run_folder(pids)

    def so_far() -> Evidence:
        """What is recorded up to this moment: it goes on being written while we look."""
        return _with_stall_of_now(_recorded(found, pids))

    def patience(seen: Look) -> float:
        """Where something stands, but not for long enough to tell stuck from slow, only looking on can."""
        now = live_run.added(so_far(), seen)
        case = Case(now)
        return 0.0 if report_on(now).findings else max(needs_patience(case), gil.needs_patience(case))

    seen = live_run.look_at(so_far(), pids, tell, patience)
    answers = flight_recorder.ask(pids) if found.folder is not None else flight_recorder.Answers()
    looked = _unless_known(flight_recorder.added(live_run.added(so_far(), seen), answers), tell)
    report = report_on(live_run.sampled(looked, seconds, tell) if seconds else looked)
    owner = owners.owner_of(pid)
    return _with_source(report) if owner is not None and owner.is_us and processes.sees_our_files(pid) else report


def _with_stall_of_now(evidence: Evidence) -> Evidence:
    """A stall that the watcher has looked into before goes on, or is over."""
    stall = evidence.stall
    if stall is None:
        return evidence
    goes_on = all(one.last_sign <= stall.since + stall.seconds for one in Case(evidence).mains if one.alive)
    seconds = round(max(live_run.now(evidence) - stall.since, stall.seconds), 3)
    now = msgspec.structs.replace(stall, seconds=seconds) if goes_on else None
    return msgspec.structs.replace(evidence, stall=now)


def _recorded(found: processes.RunFolder, pids: list[int]) -> Evidence:
    """The run's folder as its user sees it; without one, what the kernel tells."""
    left_out = list(found.refused)
    if found.folder is not None:
        from .recordings import (
            folder as _,  # noqa: F401  (before our rights are gone, and with them perhaps our own files)
        )

        folder = found.folder
        try:
            evidence = owners.as_owner(found.owner, lambda: gather(folder), Evidence)
        except owners.Refused as error:
            left_out.append(f"{folder} was not read: {error}")
        else:
            return _left_out(evidence, *left_out)
    return _left_out(live_run.unrecorded(pids), *left_out)


def get_ready() -> None:
    """Import what takes time, numpy and all rules, before it is needed."""
    from .recordings import folder as _  # noqa: F401

    all_rules()


def diagnose_stall(folder: Path, pid: int, stall: Stall) -> Report:
    """The verdict on a recorded run whose watcher has seen it stand still."""
    pids = processes.run_of(pid)
    answers = flight_recorder.ask(pids)
    evidence = flight_recorder.added(msgspec.structs.replace(gather(folder), stall=stall), answers)
    looked = live_run.added(evidence, live_run.look_at(evidence, pids, lambda _: None))
    return _with_source(report_on(_unless_known(looked, lambda _: None)))


def _with_source(report: Report) -> Report:
    """Findings with their line of code, where it is here and has not changed since the run began."""
    here = (None, os.uname().nodename)
    found = [
        msgspec.structs.replace(one, source=line_at(one.where.file, one.where.line, report.run.started))
        if one.where is not None and one.node in here
        else one
        for one in report.findings
    ]
    return msgspec.structs.replace(report, findings=without_secrets(found))


def _unless_known(evidence: Evidence, tell: Tell) -> Evidence:
    """Where no cause is known and a main thread computes without progress, what it goes through is looked at, too."""
    return evidence if report_on(evidence).findings else live_run.with_rounds(evidence, tell)


def foretold(folder: Path) -> Ahead:
    """What will go wrong with a run that goes on, as its recording shows it, and how far it is on its way to start."""
    rules, report = all_rules(), report_on(_asked(folder))
    findings = [one for one in report.findings if one.role == "root" and rules[one.rule].predicts]
    return Ahead(findings, [way_to_first_step(one) for one in report.start if one.going_on])


def trainings(tell: Tell) -> list[Training]:
    """Every training that can be seen on this machine, and what each is doing."""
    found = []
    for pids in processes.all_runs():
        tell(f"looking at pid {pids[0]}")
        evidence = without_secrets(live_run.glanced_at(pids))
        seen = evidence.processes
        if not seen:  # it has ended meanwhile
            continue
        doing = [
            f"rank {one.rank}: {one.doing}" if one.rank is not None else one.doing for one in activities(Case(evidence))
        ]
        doing = doing or [f"unknown: {one.refused}" for one in seen if one.refused][:1]
        mains, workers = (sum(one.role == role for one in seen) for role in ("main", "worker"))
        folder = processes.run_folder(pids).folder
        command = " ".join(evidence.run.command)
        found.append(
            Training(pids[0], command, seen[0].age, len(seen), mains, workers, doing, str(folder) if folder else "")
        )
    return found


def report_on(evidence: Evidence) -> Report:
    """Judge evidence, also evidence that was saved long ago."""
    evidence = without_secrets(evidence)  # first of all: what is written and shown comes from here
    case = Case(evidence)
    judgements = judge(case)
    found = rank_findings([*judgements, *tried(evidence)])
    broken: list[str] = []

    def worked_out(name: str, work: Callable[[Case], T], nothing: T) -> T:
        """A mistake in one part of a report, like one in a rule, takes nothing else with it."""
        try:
            return work(case)
        except Exception as error:  # noqa: BLE001  (any bug of one part is told)
            broken.append(f"{name} could not be worked out: {type(error).__name__}: {error}")
            return nothing

    findings = worked_out("the error on the screen", lambda known: with_errors(known, found), found)

    def ruled_out(known: Case) -> list[str]:
        return acquitted(known, findings)

    return Report(
        unstuck=__version__,
        run=RunName(evidence.run.id, evidence.run.command, evidence.run.started, evidence.run.host),
        state=_state([one.symptom for one in findings if one.role == "root"], case),
        findings=findings,
        activities=worked_out("what the ranks do", activities, []),
        unsettled=[] if findings or _on_purpose(evidence) else worked_out("what is open", unsettled, []),
        meaning=worked_out("what it means", meaning, ""),
        spent=worked_out("where the time went", spending, []),
        start=worked_out("the way to the first step", timeline, []),
        stages=worked_out("the stages of loading", stage_times, []),
        bottleneck=worked_out("the bottleneck", bottleneck, None),
        not_checked=[] if _on_purpose(evidence) else _not_checked(judgements),
        overhead=_overhead(case),
        summary=worked_out("the summary", summary, ""),
        framework=worked_out("the framework", lambda known: trainer_of(known.evidence), ""),
        notes=_notes(case, judgements) + worked_out("what was ruled out", ruled_out, list[str]()) + broken,
        trial=evidence.trial,
        data=evidence.data,
        bad_files=worked_out("what is wrong with the data", bad_files, []),
        evidence=evidence,
    )


def _state(roots: list[str], case: Case) -> str:
    if roots:
        return min(roots, key=lambda symptom: Symptom(symptom).weight)
    if case.trial is not None:
        return "unknown" if any(one.status == FAIL for one in case.trial.rungs) else "healthy"
    if case.data is not None and not case.data.of_run:
        return _whole(case.data)
    recorded = case.recording or []
    looked = bool(recorded or case.stacks) and not case.unreadable
    looked = looked and not any(one.adapters_failed for one in recorded) and not _blind(case)
    still = standstills(case)
    if still:
        return Symptom.WAITING.value if all(one.awaits for one in still) else "unknown"
    return "healthy" if looked and case.run.status in (0, None) and trained(case) else "unknown"


def _on_purpose(evidence: Evidence) -> bool:
    """Not a run but a trial, or data that was read: nothing is missing because there are no recordings."""
    return evidence.trial is not None or (evidence.data is not None and not evidence.data.of_run)


def _whole(data: Data) -> str:
    """Nothing was found; but what could not be read may hide something."""
    seen = any(one.format and not one.unread for one in data.files) or data.folders
    return "healthy" if seen and not data.stopped and not any(one.unread for one in data.files) else "unknown"


def _blind(case: Case) -> bool:
    """A main process was looked at, and what it does could not be seen."""
    seen = {one.pid for one in case.stacks or ()}
    refused = [one for one in case.processes or () if one.role == "main" and one.refused and not one.ended]
    return any(one.pid not in seen for one in refused)


def _not_checked(judgements: list[Judgement]) -> list[NotChecked]:
    """Nothing is missing in a run because nobody has tried its loader or read its data on purpose."""
    missing: dict[str, list[str]] = {}
    for judgement in judgements:
        for section in judgement.missing:
            if section not in ("trial", "data"):
                missing.setdefault(section.removesuffix(" or data"), []).append(judgement.rule)
    return [NotChecked(needs=section, rules=rules) for section, rules in sorted(missing.items())]


def _overhead(case: Case) -> Overhead:
    mains, workers = case.mains, [one for one in case.recording or () if one.role == "worker"]
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
        longest_us=round(max((one.cost.longest for one in case.recording or ()), default=0.0) * 1e6, 1),
        recorded_bytes=sum(one.size for one in case.recording or ()),
    )


def _notes(case: Case, judgements: list[Judgement]) -> list[str]:
    """What a reader must know about the looking itself."""
    notes = list(case.unreadable)
    notes += [f"rule {one.rule} is broken: {one.error}" for one in judgements if one.verdict == "broken"]
    for process in case.recording or ():
        notes += [f"pid {process.pid}: adapter {failed}" for failed in process.adapters_failed]
    for host in case.host or ():
        notes += [f"{host.node}: {_unrecorded(name)}" for name in host.unrecorded]
    notes += _unseen(case)
    if case.data is not None and case.data.of_run and case.data.stopped:
        notes.append(case.data.stopped)
    ended_well = case.run.status == 0  # and may never have been meant to train: one line says it
    if case.recording is None and not case.processes and not _on_purpose(case.evidence) and not ended_well:
        notes.append(
            "nothing was recorded: no process of this command imported torch where unstuck could see it "
            "(python -I, -E or -S, a container, or a wiped environment keep it out)"
        )
    return notes


def _unseen(case: Case) -> list[str]:
    """Processes whose stacks could not be had, or only in another way, by reason."""
    seen = {one.pid for one in case.stacks or ()}
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in case.processes or ():
        if one.refused and not _went_on(case, one):
            whose = "pid" if one.pid in seen else "no stacks of pid"
            reasons.setdefault((whose, one.refused), []).append(str(one.pid))
    return [f"{whose} {', '.join(pids)}: {reason}" for (whose, reason), pids in reasons.items()]


def _went_on(case: Case, seen: Seen) -> bool:
    """It made progress after that look, which came while its interpreter started; or the run ended without it."""
    process = case.process(seen.node, seen.pid)
    if process is None:  # no training of its own; once the run is over, nobody waits for its stacks any more
        return case.run.status is not None
    return case.looked_at is not None and process.last_sign > case.looked_at


def _unrecorded(name: str) -> str:
    parts = name.split("-")
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal() and len(parts[2]) < 6):
        return f"{name} is no word of a process that went unrecorded"
    return f"pid {parts[1]} went unrecorded ({os.strerror(int(parts[2]))})"
