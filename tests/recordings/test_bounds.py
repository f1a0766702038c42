"""What a run folder may take as a whole: many files, each of a size that one may have, and full of what ours hold."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from unstuck.cli import main as cli
from unstuck.diagnose import diagnose, get_ready
from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import Kind
from unstuck.probes import journals
from unstuck.recordings import folder as run_folder
from unstuck.safe_files import LARGEST_TEXT

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzzing"))
import spoiling
from made_up import FACTS, PLACE, STARTED, a_run

BEGIN = b'{"type":"begin","node":"h","pid":1}\n'
GONE = b'{"type":"gone","exit":{"pid":1000,"status":-9,"at":1.5,"how":"x"}}\n'
SIGNAL = b'{"type":"signal","told":{"signal":1,"at":1}}\n'
END = b'{"type":"end","at":9.0}\n'


def look(processes: int) -> bytes:
    inner = ",".join(['{"pid":1}'] * processes)
    return b'{"type":"look","sample":{"at":1.5,"processes":[%s]}}\n' % inner.encode()


def glance(frames: int) -> bytes:
    inner = ",".join(['{"file":""}'] * frames)
    return b'{"type":"glance","glance":{"at":1.5,"pid":1,"doing":"","since":1,"frames":[%s]}}\n' % inner.encode()


def full(run: Path, line: bytes, nodes: int) -> None:
    """Journals of so many nodes, as large as one may be; they are one file under many names, which costs no disk."""
    first = run / "watch-h0.jsonl"
    first.write_bytes(BEGIN + line * ((journals.LARGEST - 1000) // len(line)) + END)
    for number in range(1, nodes):
        os.link(first, run / f"watch-h{number}.jsonl")


LINES = {
    "exits": GONE,
    "looks at many processes": look(5000),
    "short looks": look(1),
    "glances": glance(5000),
    "signals": SIGNAL,
    "empty lines": b"\n",
    "all": GONE * 100 + look(500) + glance(50) + SIGNAL * 10,
}


@pytest.mark.scenario
@pytest.mark.calm
@pytest.mark.parametrize("kind", LINES)
def test_journals_of_many_nodes_take_no_more_than_their_share(tmp_path: Path, kind: str) -> None:
    run = a_run(tmp_path / "run")
    full(run, LINES[kind], nodes=100)
    get_ready()

    with spoiling.within_memory(), spoiling.in_time(kind):
        report = diagnose(run)

    told = [one for one in report.notes if "watch-h" in one or "journal" in one or "more files" in one]
    assert any("are left out" in one for one in told)
    assert len(told) <= journals.TOLD + 1
    assert "worker-oom-killed" in {one.rule for one in report.findings}  # the run's own journal is read as ever


def test_of_a_journal_that_is_read_in_part_the_beginning_and_the_newest_lines_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [GONE.replace(b"1.5", b"%d.5" % number) for number in range(1000)]
    path = tmp_path / "watch-h.jsonl"
    path.write_bytes(BEGIN + b"".join(lines) + END)
    monkeypatch.setattr(journals, "READ", 8000)

    reading = journals.Reading(tmp_path)
    (journal,) = reading

    assert journal.begin is not None
    assert journal.ended
    assert journal.exits[-1].at == 999.5
    assert len(journal.exits) < 200
    (told,) = reading.told()
    assert "is read in part" in told


def test_a_node_that_writes_little_leaves_its_share_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        (tmp_path / f"watch-h{number}.jsonl").write_bytes(BEGIN)
    (tmp_path / "watch-h9.jsonl").write_bytes(BEGIN + GONE * 100)
    monkeypatch.setattr(journals, "READ", 20_000)
    monkeypatch.setattr(journals, "EXITS", 20_000)

    reading = journals.Reading(tmp_path)

    assert [len(one.exits) for one in reading] == [0] * 9 + [100]
    assert reading.told() == []


def recorded(path: Path, number: int, kind: int) -> None:
    """A recording of the usual layout whose notes are all of one kind, and name whatever string they like."""
    recorder = Recorder(str(path), f.MAIN_LAYOUT)
    words = recorder.words
    words[f.H_PID], words[f.H_STARTED], words[f.H_PARENT], words[f.H_ROLE] = 5000 + number, 77, 1, f.ROLE_MAIN
    words[f.H_MONOTONIC], words[f.H_WALL] = 100 * 10**9, STARTED * 10**9
    long = recorder.intern("x" * 300_000)
    said = recorder.intern(json.dumps(FACTS[kind][1])) if kind in FACTS else recorder.intern(f"train\n{PLACE}")
    for one in range(f.MAIN_LAYOUT.notes - 100):
        recorder.note(kind, long if one % 2 else one, (102 + one) * 10**9, 1000, said, said, long)
    recorder.publish()


@pytest.mark.parametrize("kind", ["SAVE", "SLOWEST", "PHASE", "WRAPPED", "PREPARED", "GRAPH", "STATE", "NOTE"])
def test_recordings_full_of_notes_take_no_more_than_those_of_a_large_run(tmp_path: Path, kind: str) -> None:
    run = a_run(tmp_path / "run")
    for number in range(3):
        recorded(run / "recordings" / f"h.1.{5000 + number}.77.rec", number, getattr(Kind, kind))
    get_ready()

    with spoiling.within_memory():
        report = diagnose(run)

    assert "worker-python-exception" in {one.rule for one in report.findings}


def test_evidence_of_recordings_is_bounded_and_what_is_left_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path / "run")
    assert diagnose(run).notes == []
    monkeypatch.setattr(run_folder, "KEPT", 6000)

    report = diagnose(run)

    assert 0 < len(report.evidence.recording) < 6
    assert [one for one in report.notes if ".rec is left out: more is known of the others" in one]


@pytest.mark.parametrize(("name", "value"), [("LONGEST", 300_000), ("SECONDS", -1.0)])
def test_reading_recordings_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    run = a_run(tmp_path / "run")
    monkeypatch.setattr(run_folder, name, value)

    report = diagnose(run)

    assert len(report.evidence.recording or ()) < 6
    assert [one for one in report.notes if ".rec is left out: " in one]


OBJECTS = {
    "looks": ('{"run":{"id":"x"},"host":[{"node":"h","samples":[{"at":1,"processes":[', '{"pid":1}', "]}]}]}"),
    "exits": ('{"run":{"id":"x"},"exits":[', '{"pid":1,"status":-9,"at":1.5,"how":"x"}', "]}"),
    "lists": (
        '{"run":{"id":"x"},"stacks":[],"trial":{"command":"x","target":{"name":"x","kwargs":{"a":[',
        "[]",
        "]}}}}",
    ),
    "numbers": ('{"run":{"id":"x"},"trial":{"command":"x","target":{"name":"x","kwargs":{"a":[', "1.5", "]}}}}"),
    "texts": ('{"run":{"id":"x"},"trial":{"command":"x","target":{"name":"x","kwargs":{"a":[', '"%07d"', "]}}}}"),
}


@pytest.mark.scenario
@pytest.mark.calm
@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("size", [12 << 20, LARGEST_TEXT - 1000])
def test_a_report_of_the_largest_size_is_judged_or_refused_within_the_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, size: int
) -> None:
    begin, each, end = OBJECTS[kind]
    length = len(each % 0 if "%" in each else each) + 1
    inner = ",".join(each % number if "%" in each else each for number in range((size - 300) // length))
    head = '{"unstuck":"0","run":{"id":"x","command":[],"started":0,"host":""},"state":"healthy","evidence":'
    (tmp_path / "report.json").write_text(f"{head}{begin}{inner}{end}}}")
    del inner
    get_ready()

    with spoiling.within_memory():
        code = cli.main(["why", str(tmp_path / "report.json")])

    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert "is not an unstuck report" not in said.err
    assert code != 2 or "too full to be read" in said.err or "unknown" in said.out


@pytest.mark.parametrize("name", ["recordings", "snapshots"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_folder_in_a_run_that_is_none_of_ours_is_not_read(tmp_path: Path, name: str, kind: str) -> None:
    run, other = a_run(tmp_path / "run"), a_run(tmp_path / "other")
    (other / "snapshots" / "0000.json").write_text("{}")
    for path in sorted((run / name).iterdir()):
        path.unlink()
    (run / name).rmdir()
    if kind == "link":
        (run / name).symlink_to(other / name)
    else:
        (run / name).write_text("x")

    report = diagnose(run)

    (told,) = [one for one in report.notes if str(run / name) in one]
    assert "is left out: it is " in told
    assert name != "recordings" or not report.evidence.recording
    assert not [one for one in report.notes if str(other) in one]
