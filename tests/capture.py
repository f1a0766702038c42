"""Runs scenarios for real and keeps their evidence and the rule's words: `python tests/capture.py [RULE...]`.

`python tests/capture.py --words [RULE...]` writes only the words anew. Either way, `tests/rules/outcomes.txt` is
written anew for all that is kept: state, roots and consequences of every case.

What names this machine is replaced, so that the files say the same wherever they were captured.
"""

from __future__ import annotations

import os
import re
import site
import sys
import tempfile
from pathlib import Path

import msgspec

from unprepared import reports, started
from unstuck.analysis.case import Case
from unstuck.analysis.standstill import mains
from unstuck.demo.scenarios import Scenario, all_scenarios, run, run_in_passing
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence
from unstuck.report import Report
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one
from unstuck.views.terminal import finding_text

HERE = Path(__file__).parent
OUTCOMES = HERE / "rules" / "outcomes.txt"
WIDTH = 100


def main(names: list[str]) -> None:
    if names[:1] == ["--words"]:
        rewrite(names[1:])
    else:
        run_anew(names)
    OUTCOMES.write_text("".join(f"{outcome(path)}\n" for path in kept()))


def run_anew(names: list[str]) -> None:
    scenarios = all_scenarios()
    for name in names or sorted(all_rules()):
        for scenario, file in ((scenarios[name], "found"), (scenarios[f"{name}-healthy"], "clear")):
            print(f"{name}: running {scenario.path.name}", flush=True)
            folder = HERE / "rules" / name
            folder.mkdir(parents=True, exist_ok=True)
            evidence = capture(scenario, live=file == "clear" and "stacks" in all_rules()[name].needs)
            (folder / f"{file}.json").write_bytes(msgspec.json.format(msgspec.json.encode(evidence), indent=1) + b"\n")
            if file == "found":
                (folder / "found.txt").write_text(words(name, evidence))


def rewrite(names: list[str]) -> None:
    """Only the words anew, from evidence that was kept before."""
    for name in names or sorted(all_rules()):
        folder = HERE / "rules" / name
        evidence = msgspec.json.decode((folder / "found.json").read_bytes(), type=Evidence)
        (folder / "found.txt").write_text(words(name, evidence))


def kept() -> list[Path]:
    """All evidence of runs that is kept."""
    return sorted((HERE / "rules").glob("*/*.json"))


def outcome(path: Path) -> str:
    """The whole verdict on a kept case on one line: state, roots, and of which of them the others are consequences."""
    report = report_on(msgspec.json.decode(path.read_bytes(), type=Evidence))
    led_to: dict[str, list[str]] = {}
    for finding in report.findings:
        led_to.setdefault(finding.because_of or finding.rule, [])
        if finding.because_of is not None:
            led_to[finding.because_of].append(finding.rule)
    causes = [root + (f" (so {', '.join(sorted(others))})" if others else "") for root, others in led_to.items()]
    return f"{path.parent.name}/{path.stem}: {report.state}" + (f": {'; '.join(causes)}" if causes else "")


def capture(scenario: Scenario, *, live: bool) -> Evidence:
    """What was seen at the end; `live`: while it ran, since only then there are stacks to judge."""
    evidence = look(scenario) if live else run_in_passing(scenario).report.evidence
    text = msgspec.json.encode(evidence).decode()
    for pattern, replacement in replacements():
        text = re.sub(pattern, replacement, text)
    root = str(HERE.parent)
    for length in range(len(root), len(HERE.parent.parent.as_posix()), -1):  # a long message is cut anywhere
        text = text.replace(f"{root[:length]} …", "/project …")
    return msgspec.json.decode(text, type=Evidence)


def look(scenario: Scenario) -> Evidence:
    """The moment at which the watcher itself thought that the run might stand still; else any at which it is seen.

    Of one that is over too soon to be looked at, what was recorded.
    """
    with tempfile.TemporaryDirectory(prefix="unstuck-") as base:
        outcome = run(scenario, Path(base))
        taken = sorted((outcome.folder / "snapshots").glob("*.json"))
        if taken:
            return msgspec.json.decode(taken[-1].read_bytes(), type=Report).evidence
        over = outcome.report.evidence
    with started(scenario) as process:
        seen = [one.evidence for one in reports(process, every=9) if mains(Case(one.evidence))][:1]
    return seen[0] if seen else over


def replacements() -> list[tuple[str, str]]:
    standard = os.path.dirname(os.__file__)
    return [
        (re.escape(sys.executable), "/env/bin/python"),
        (re.escape(site.getsitepackages()[0]), "/env/lib/python3/site-packages"),
        (re.escape(standard), "/usr/lib/python3"),
        (re.escape(str(HERE.parent)), "/project"),
        (re.escape(sys.base_prefix), "/usr"),
        (r"/tmp/(unstuck-|tmp)\w+", "/tmp/somewhere"),
        (r"/sys/fs/cgroup/memory(/process_api)?(/[0-9a-f]{32})", "/sys/fs/cgroup/memory/job"),
        (r"/sys/fs/cgroup/memory/process_api", "/sys/fs/cgroup/memory"),
        (r"unstuck-\d+-\d+", "container"),
        (rf'"{re.escape(os.uname().nodename)}"', '"node"'),
    ]


def words(name: str, evidence: Evidence) -> str:
    """What a person reads of this rule, line by line."""
    findings = judge_one(all_rules()[name], Case(evidence)).findings
    return "\n".join(finding_text(finding, WIDTH) for finding in findings)


if __name__ == "__main__":
    main(sys.argv[1:])
