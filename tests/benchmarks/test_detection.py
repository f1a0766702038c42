"""benchmarks/detection.py: what it makes of runs that hang, and of healthy ones."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from unstuck.demo.scenarios import all_scenarios
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.finding import Finding, Remedy
from unstuck.evidence.live import Stall
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Process
from unstuck.report import Report

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STARTED, ONSET = 1000.0, 5.0


@pytest.fixture
def measuring(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = ("detected", "detection_page", "trial", "children")
    return SimpleNamespace(**{name: importlib.import_module(f"measuring.{name}") for name in names})


def told(measuring, name, *lines, state="stuck", rule=None, symptom="stuck", ended=1100.0, code=124):
    """A run that said these lines, each so many seconds after it began."""
    findings = (
        [Finding(rule=rule, cause="It hangs.", seen=[], remedy=Remedy("Fix it."), symptom=symptom, onset_s=1.0)]
        if rule
        else []
    )
    run = Run("run", started=STARTED)
    evidence = Evidence(run=run, stall=Stall(None, 1, ONSET, 10.0) if rule else None)
    report = Report("0", run=run, state=state, findings=findings, evidence=evidence)
    said = tuple(measuring.trial.Line(STARTED + at, text) for at, text in lines)
    return measuring.trial.Trial(all_scenarios()[name], said, report, ended=ended, code=code)


def block(at, state, rule):
    return (at, f"✗ {state}[{rule}]  It hangs."), (at, "  --> train.py:1  certain")


def page(measuring, *trials):
    rows = [measuring.detected.row(one) for one in trials]
    return {"rows": rows, "targets": measuring.detection_page.targets(rows), "beside": 2}


def test_a_hang_is_timed_from_the_last_progress_to_the_line_that_names_its_cause(measuring):
    other, right = block(16.0, "unknown", "worker-blocked-io"), block(17.5, "stuck", "worker-stopped")

    row = measuring.detected.row(told(measuring, "worker-stopped", *other, *right, rule="worker-stopped"))

    assert row["seconds"] == pytest.approx(12.5)
    assert row["right"]


def test_a_cause_that_is_told_late_misses_its_target(measuring):
    late = told(measuring, "worker-stopped", *block(40.0, "stuck", "worker-stopped"), rule="worker-stopped")

    found = page(measuring, late)

    assert [one["met"] for one in found["targets"]] == [False, False, True]
    assert "2 of 3 targets MISSED" in measuring.detection_page.line(found)


def test_a_hang_that_is_called_healthy_misses_its_target(measuring):
    called = told(measuring, "worker-stopped", (30.0, "✓ healthy  300 steps"), state="healthy", code=0)

    found = page(measuring, called)

    assert "1 called healthy" in measuring.detection_page.line(found)
    assert not found["targets"][2]["met"]


def test_what_waits_for_a_server_has_a_patience_of_its_own(measuring):
    waits = block(68.0, "waiting", "worker-blocked-io")
    patient = told(measuring, "worker-blocked-io-socket", *waits, state="waiting", rule="worker-blocked-io",
                   symptom="waiting")  # fmt: skip

    found = page(measuring, patient)

    assert [one["what"] for one in found["targets"]] == ["hangs called healthy, of 1"]
    assert "1 not held to that" in measuring.detection_page.line(found)


def test_an_alarm_on_a_healthy_run_misses_its_target(measuring):
    quiet = told(measuring, "worker-stopped-healthy", (101.0, "✓ healthy  300 steps"), state="healthy", code=0)
    alarm = told(measuring, "healthy-compute-bound", *block(20.0, "slow", "dataloader-bound"), state="slow",
                 rule="dataloader-bound", symptom="slow", code=0)  # fmt: skip

    found = page(measuring, quiet, alarm)

    assert "2 healthy runs: 1 alarms" in measuring.detection_page.line(found)
    assert not found["targets"][-1]["met"]


def test_an_epoch_without_an_end_never_stood_still_and_a_healthy_run_stays_one(measuring):
    """Both had batches until their end."""
    main = Process("n", 7, 1, "main", loaders=[Loader(1, batches=90, now_since=99.5)])
    run = Run("run", started=STARTED, pid=7, host="n", status=0)
    evidence = Evidence(run=run, recording=[main], exits=[Exit(7, 0, 100.0, "waited", node="n")])
    kinds = {}
    for name, rule in (("gil-held", "gil-held"), ("gil-held-healthy", None)):
        trial = told(measuring, name, rule=rule, state="stuck" if rule else "healthy", code=0)
        report = msgspec.structs.replace(trial.report, evidence=evidence)
        kinds[name] = measuring.detected.row(trial._replace(report=report))["kind"]

    assert kinds == {"gil-held": "others", "gil-held-healthy": "healthy"}


def test_hangs_come_with_their_healthy_neighbours_and_with_all_that_are_merely_healthy(measuring):
    names = {one.name for one in measuring.detected.chosen(None, quick=False, everything=False)}

    assert {"worker-stopped", "worker-stopped-healthy", "ddp-uneven-batches", "healthy-compute-bound"} <= names
    assert not names & {"dataloader-bound", "worker-killed-healthy", "all-documents-blank-checked"}


def test_busy_processes_end_with_what_they_are_beside(measuring, monkeypatch):
    started, popen = [], subprocess.Popen

    def noted(*asked, **more):
        started.append(popen(*asked, **more))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)

    with measuring.children.busy(2):
        alive = [one.poll() for one in started]

    assert alive == [None, None]
    assert all(one.returncode is not None for one in started)


def test_a_name_that_no_scenario_has_is_told():
    command = [sys.executable, str(BENCHMARKS / "detection.py"), "--only", "no-such-thing"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert ended.returncode == 2
    assert "no-such-thing" in ended.stderr
