"""What people and machines see of a report."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence.basics import Timing
from unstuck.views.as_json import render
from unstuck.views.terminal import show

HERE = Path(__file__).parents[1]


def report(rule="worker-python-exception", file="found"):
    return report_on(evidence_of(rule, file))


def shown(given, width=110):
    out = io.StringIO()
    show(given, Console(file=out, width=width, highlight=False, color_system=None), "unstuck-runs/some-run")
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_block_says_state_rule_cause_place_fix_evidence_error_page_and_run():
    lines = shown(report(), 180)

    assert lines[0].startswith("✗ crashed[worker-python-exception]  ")
    assert lines[0].endswith("  certain")
    assert lines[1].startswith("  --> ")
    labels = [line[2:7].strip() for line in lines[2:] if line[2:7].strip()]
    assert labels == ["fix", "why", "saw", "help", "run"]


def test_a_healthy_run_is_one_line():
    lines = shown(report(file="clear"))

    assert len(lines) == 1
    assert lines[0].startswith("✓ healthy  ")
    assert "57 steps in " in lines[0]
    assert lines[0].endswith(" · unstuck-runs/some-run")


def test_a_longer_healthy_run_is_told_what_its_limit_is():
    evidence = report(file="clear").evidence
    main = Case(evidence).mains[0]
    waits, bodies = Timing(count=100, total=0.3, longest=0.1), Timing(count=100, total=99.7, longest=1.0)
    loader = msgspec.structs.replace(main.loaders[0], waits=waits, first_waits=Timing(), bodies=bodies)
    longer = msgspec.structs.replace(main, loaders=[loader])

    told = shown(report_on(msgspec.structs.replace(evidence, recording=[longer])))

    assert len(told) == 1
    assert "Data is not the bottleneck, the training step is: 0.3 % of the loop waits for data" in told[0]


def test_what_was_not_checked_is_said():
    bare = msgspec.structs.replace(report().evidence, host=None)

    lines = " ".join(" ".join(shown(report_on(bare))).split())

    assert "not checked" in lines
    assert "(needs: host)" in lines


def test_a_narrow_terminal_loses_no_words():
    """Certainty moves to the second line where the first has no room for it."""
    narrow, wide = ("".join("".join(shown(report(), width)).replace("·", "").split()) for width in (60, 200))

    assert sorted(narrow) == sorted(wide)


def test_json_keeps_the_contract():
    said = json.loads(render(msgspec.structs.replace(report(), evidence="unstuck-runs/some-run")))

    assert list(said)[:4] == ["schema", "unstuck", "run", "state"]
    assert set(said["run"]) == {"id", "command", "started", "host"}
    finding = said["findings"][0]
    assert set(finding) >= {
        "rule", "symptom", "cause", "role", "because_of", "node", "rank", "worker", "pid", "onset_s", "where",
        "subject", "seen", "remedy",
    }  # fmt: skip
    assert set(finding["remedy"]) == {"text", "commands", "code"}
    assert set(finding["where"]) == {"file", "line", "function"}
    assert said["evidence"] == "unstuck-runs/some-run"


def test_a_view_can_be_looked_at_alone(tmp_path):
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(report()))

    command = [sys.executable, "-m", "unstuck.views.terminal", str(tmp_path / "report.json")]
    seen = subprocess.run(command, capture_output=True, text=True, check=True)

    assert seen.stdout.startswith("✗ crashed[")
    assert seen.stderr == ""


def test_loaders_that_are_made_anew_each_epoch_are_added_up():
    evidence = report(file="clear").evidence
    main = Case(evidence).mains[0]
    bodies = Timing(count=100, total=10.0, longest=1.0)
    loaders = [
        msgspec.structs.replace(
            main.loaders[0], number=number, optimizer_steps=100, waits=Timing(), first_waits=Timing(), bodies=bodies
        )
        for number in (1, 2)
    ]
    longer = msgspec.structs.replace(main, loaders=loaders, optimizer_steps=200)

    told = report_on(msgspec.structs.replace(evidence, recording=[longer])).summary

    assert told == "200 steps in 20 s"
