"""Runs scenarios for real and keeps their evidence and the rule's words: `python tests/capture.py [RULE...]`.

`python tests/capture.py --words [RULE...]` writes only the words anew. Either way, `tests/rules/outcomes.txt` is
written anew for all that is kept: state, roots and consequences of every case.

What names this machine is replaced, so that the files say the same wherever they were captured. What repeats is thinned
as far as every report made of it, and the verdict of every rule, stay exactly the same.
"""

from __future__ import annotations

import os
import re
import site
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kept import KEPT, OUTCOMES
from unprepared import reports, started
from unstuck.analysis.case import Case
from unstuck.analysis.standstill import mains
from unstuck.demo.scenarios import Scenario, all_scenarios, run, run_in_passing
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence
from unstuck.report import Report
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge, judge_one
from unstuck.views.terminal import finding_text
from unstuck.wording.secrets import without_secrets

HERE = Path(__file__).parent
WIDTH = 100
LINE = 160  # characters of a file of evidence: a record that fits stays on one line
CAREFUL = 2  # steps at most for samples of ranks that failed: tests move a count in one, and ask again what ended it
FEWEST = 4  # samples of a machine that stay, where there were as many: thinned ones show how it went, too


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
            folder = KEPT / name
            folder.mkdir(parents=True, exist_ok=True)
            evidence = capture(scenario, live=file == "clear" and "stacks" in all_rules()[name].needs)
            (folder / f"{file}.json").write_text(kept_text(msgspec.to_builtins(evidence)))
            if file == "found":
                (folder / "found.txt").write_text(words(name, evidence))


def rewrite(names: list[str]) -> None:
    """Only the words anew, from evidence that was kept before."""
    for name in names or sorted(all_rules()):
        folder = KEPT / name
        evidence = msgspec.json.decode((folder / "found.json").read_bytes(), type=Evidence)
        (folder / "found.txt").write_text(words(name, evidence))


def kept_text(data: dict[str, Any]) -> str:
    """Evidence as a file keeps it: without what says nothing, thinned, and in lines that can be read.

    A report repeats the trial as it is: of that, nothing is left out.
    """
    lean = without_defaults(data, msgspec.convert(data, type=Evidence))
    whole = {key: value for key, value in data.items() if key == "trial"}
    return laid_out(thinned(lean | whole)) + "\n"


def without_defaults(data: Any, struct: Any) -> Any:
    """`data`, of which `struct` was made, without fields that nobody reads or that say what they say unsaid.

    msgspec leaves out only a default that is the very same object: never a zero that was computed.
    """
    if isinstance(struct, msgspec.Struct):
        fields = [one for one in msgspec.structs.fields(struct) if one.encode_name in data]
        lean = {one.encode_name: without_defaults(data[one.encode_name], getattr(struct, one.name)) for one in fields}
        return {one.encode_name: lean[one.encode_name] for one in fields if lean[one.encode_name] != unsaid(one)}
    if isinstance(data, dict):
        return {key: without_defaults(value, struct[key]) for key, value in data.items()}
    if isinstance(data, list):
        return [without_defaults(value, part) for value, part in zip(data, struct, strict=True)]
    return data


def unsaid(field: msgspec.structs.FieldInfo) -> Any:
    """What a field says where it is left out."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    default = field.default
    return without_defaults(msgspec.to_builtins(default), default) if isinstance(default, msgspec.Struct) else default


def spread(samples: list[Any], step: int) -> list[Any]:
    """Every so many-th, the first and the last: regular, and never fewer than `FEWEST`."""
    fewer = samples[: -1 : min(step, max(1, (len(samples) - 1) // (FEWEST - 1)))]
    return [*fewer, *samples[-1:]]


def newest(records: list[Any], count: int) -> list[Any]:
    """As a ring of that size would have kept them."""
    return records[-count:]


def first(records: list[Any], count: int) -> list[Any]:
    """As somebody would have who looks at the first few only."""
    return records[:count]


def unlike(stacks: list[Any], count: int) -> list[Any]:
    """All main threads; of others that have the same name and stand at the same place, so many."""
    left: list[Any] = []
    seen: list[Any] = []
    for stack in stacks:
        place = [stack.get(key) for key in ("name", "frames", "before")]
        main = stack["tid"] == stack["pid"]
        if main or seen.count(place) < count:
            left.append(stack)
            seen += [] if main else [place]
    return left


# What may be thinned, by its path, and how far in steps. Of a machine's samples, every fourth says more than others.
WAYS: Mapping[str, tuple[Callable[[list[Any], int], list[Any]], tuple[int, ...]]] = {
    "host.samples": (spread, (2, 3, 4, 6, 8)),
    "host.samples.processes": (first, (8, 6, 4, 3, 2, 1)),
    "host.glances": (newest, (3, 2, 1)),
    "stacks": (unlike, (2, 1)),
    "recording.collectives": (newest, (96, 64, 32, 16, 8, 4)),
    "recording.phases": (newest, (8, 4, 2)),
    "recording.spans": (newest, (8, 4, 2)),
    "recording.calls": (newest, (4, 2)),
    "recording.loaders.recent_waits": (newest, (16, 8)),
    "recording.loaders.gaps": (newest, (8, 4, 2, 1)),
    "recording.loaders.ended": (newest, (8, 4, 2)),
    "recording.loaders.states": (newest, (2,)),
    "recording.loaders.sampling": (newest, (2,)),
    "recording.loaders.boundaries": (newest, (4, 2)),
    "recording.fetching.handed": (newest, (8, 4, 2, 1)),
}


def thinned(data: dict[str, Any]) -> dict[str, Any]:
    """As many of the records that repeat as are needed for the very same report, with no value changed."""
    whole, left, steps = said(data), data, dict[str, int]()
    for path, (_, further) in WAYS.items():
        careful = path == "host.samples" and ranks_failed(data)
        for step in further[:CAREFUL] if careful else further:
            fewer = with_fewer(data, {**steps, path: step})
            if fewer != left and said(fewer) == whole:
                left, steps[path] = fewer, step
    return left


def ranks_failed(data: dict[str, Any]) -> bool:
    """Whether it is a run of several ranks that did not end well."""
    ranks = [one for one in data.get("recording") or () if "rank" in one]
    return len(ranks) > 1 and data["run"].get("status") not in (0, None)


def with_fewer(data: Any, steps: Mapping[str, int], path: str = "") -> Any:
    """`data` with its lists thinned: to which step, by path."""
    if isinstance(data, dict):
        return {key: with_fewer(value, steps, f"{path}.{key}".lstrip(".")) for key, value in data.items()}
    if isinstance(data, list):
        records = WAYS[path][0](data, steps[path]) if path in steps else data
        return [with_fewer(record, steps, path) for record in records]
    return data


def said(data: dict[str, Any]) -> bytes:
    """All that is made of evidence: the report, and what each rule says."""
    evidence = msgspec.convert(data, type=Evidence)
    report = msgspec.structs.replace(report_on(evidence), evidence=Evidence(run=evidence.run), data=None)
    return msgspec.json.encode([report, judge(Case(without_secrets(evidence)))])


def laid_out(value: Any, indent: int = 0, room: int = LINE) -> str:
    """JSON with one record per line where it fits; numbers, texts and fields share lines."""
    flat = msgspec.json.encode(value).decode()
    if len(flat) <= room or not value or not isinstance(value, dict | list):
        return flat
    named = value.items() if isinstance(value, dict) else (("", one) for one in value)
    names = [(f'"{name}":' if isinstance(value, dict) else "", part) for name, part in named]
    parts = [name + laid_out(part, indent + 1, LINE - indent - len(name) - 3) for name, part in names]
    shared = isinstance(value, dict) or not isinstance(value[0], dict | list)
    lines = f",\n{' ' * (indent + 1)}".join(filled(parts, LINE - indent - 3) if shared else parts)
    return f"{{{lines}}}" if isinstance(value, dict) else f"[{lines}]"


def filled(parts: list[str], room: int) -> list[str]:
    """As many on one line as fit, in their order; what takes several lines begins one and ends one."""
    lines: list[str] = []
    for part in parts:
        if lines and "\n" not in lines[-1] + part and len(lines[-1]) + len(part) < room:
            lines[-1] += f",{part}"
        else:
            lines.append(part)
    return lines


def kept() -> list[Path]:
    """All evidence of runs that is kept."""
    return sorted(KEPT.glob("*/*.json"))


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
