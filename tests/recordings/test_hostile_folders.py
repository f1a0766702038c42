"""`why` and `logs` on folders of ill will: FIFOs, links, devices, huge files, too many files, names, other encodings.

Each look is bounded in time and memory, what is left out is told in one line, and the rest is still judged.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from stuck import wait_for
from unstuck.analysis.case import Case
from unstuck.analysis.rank_deaths import members
from unstuck.cli import main as cli
from unstuck.diagnose import diagnose, report_on
from unstuck.errors import UserError
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.process import Process
from unstuck.inside import format as f
from unstuck.probes import run_history, stack_dumps
from unstuck.probes.source_code import gone_over
from unstuck.recordings import folder as run_folder
from unstuck.recordings.reader import Recording

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzzing"))
import spoiling
from made_up import a_run

NODE = os.uname().nodename
HUGE = 8 << 30  # bytes
PLACES = {
    "recording": f"recordings/{NODE}.1.1001.77.rec",
    "new recording": "recordings/h.1.2.3.rec",
    "answer": f"recordings/{NODE}.1.1000.77.flight",
    "stacks": f"recordings/{NODE}.1.1000.77.stacks",
    "journal": f"watch-{NODE}.jsonl",
    "snapshot": "snapshots/0000.json",
    "run": "run.json",
    "log": "logs/train_20260101_000000.log",
}


def fifo(path):
    os.mkfifo(path)


def link(path):
    path.symlink_to("/etc/hostname")


def endless(path):
    path.symlink_to("/dev/zero")


def device(path):
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


def sparse(path):
    path.write_bytes(b"")
    os.truncate(path, HUGE)


def folder(path):
    path.mkdir()


KINDS = (fifo, link, endless, device, sparse, folder)


@pytest.fixture
def spoil(tmp_path):
    """Puts something else into the place of a file of a run folder; gives the folder and that place."""

    def make(place, kind):
        run = a_run(tmp_path / "run")
        path = run / PLACES[place]
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        kind(path)
        return run, path

    return make


def said_of(capsys, *words):
    """What a command says, within the bounds; its two streams as one line each."""
    with spoiling.within_memory(), spoiling.in_time(words):
        code = cli.main([*map(str, words)])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, " ".join(said.out.split()), said.err


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("place", [one for one in PLACES if one not in ("run", "log")])
def test_what_is_no_plain_file_is_left_out_and_told_and_the_rest_is_judged(spoil, capsys, place, kind):
    run, path = spoil(place, kind)

    code, _, _ = said_of(capsys, "why", run)

    assert code == 1
    report = diagnose(run)
    assert "worker-python-exception" in {finding.rule for finding in report.findings}  # a worker's own recording has it
    told = [note for note in report.notes if str(path) in note]
    assert len(told) == 1
    assert "left out" in told[0]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_run_without_a_plain_description_is_refused_in_one_line(spoil, capsys, kind):
    run, path = spoil("run", kind)

    code, out, err = said_of(capsys, "why", run)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"unstuck: {path} is " in err


@pytest.mark.parametrize("kind", [one for one in KINDS if one is not sparse], ids=lambda kind: kind.__name__)
def test_a_log_that_is_no_plain_file_is_left_out_and_told(spoil, capsys, kind):
    run, path = spoil("log", kind)

    _, out, err = said_of(capsys, "logs", run)

    assert out == ""
    assert err.startswith(f"unstuck: {path} is left out: it is ")


def test_of_a_log_without_an_end_the_end_is_read(spoil, capsys):
    run, path = spoil("log", sparse)
    with path.open("ab") as log:
        log.write(b"\n[2026-01-01 00:00:00,000] [INFO] [unstuck.run] the newest line\n")

    _, out, err = said_of(capsys, "logs", run)

    assert out.endswith("the newest line")
    assert f"{path} is shown from its end" in err


@pytest.mark.parametrize("kind", [fifo, endless, sparse, folder], ids=lambda kind: kind.__name__)
def test_a_report_that_is_no_plain_file_is_refused_in_one_line(tmp_path, capsys, kind):
    path = tmp_path / "report.json"
    kind(path)
    target = path if kind is not folder else tmp_path

    code, out, err = said_of(capsys, "why", target)

    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.scenario
@pytest.mark.calm
def test_a_hundred_thousand_files_among_the_recordings_are_no_reason_to_wait(tmp_path, capsys):
    run = a_run(tmp_path / "run")
    for number in range(100_000):
        os.close(os.open(run / "recordings" / f"h.1.{number}.1.rec", os.O_CREAT | os.O_WRONLY))
    for number in range(500):
        (run / "recordings" / f"x.1.{number}.1.rec").write_bytes(b"x")

    code, out, _ = said_of(capsys, "why", run)

    assert code == 1
    assert "480 more files were left out" in out


def test_a_recording_with_a_hundred_names_is_read_once(tmp_path):
    run = a_run(tmp_path / "run")
    first = run / PLACES["recording"]
    for number in range(100):
        os.link(first, run / "recordings" / f"x.1.{number}.1.rec")

    evidence = diagnose(run).evidence

    assert len(evidence.recording) == 6
    assert "another name of a recording" in evidence.unreadable[0]


def test_more_recordings_than_any_run_has_are_counted_and_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "MOST", 4)

    evidence = diagnose(a_run(tmp_path / "run")).evidence

    assert len(evidence.recording) == 4
    assert len([one for one in evidence.unreadable if "4 recordings were read" in one]) == 2


def with_word(run, at, word):
    path = run / PLACES["recording"]
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, at * f.WORD, word)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("at", [f.H_WORLD, f.H_RANK, f.H_WORKERS, f.H_MONOTONIC, f.H_WALL, f.H_PID, f.H_STACK_SIGNAL])
def test_a_number_that_cannot_be_is_told_as_damage_of_that_recording(tmp_path, at):
    run = a_run(tmp_path / "run")
    path = with_word(run, at, (1 << 63) - 1)

    with spoiling.within_memory(), spoiling.in_time(at):
        report = diagnose(run)

    assert [one for one in report.notes if str(path) in one and f"word {at} of its header" in one]
    assert len(report.evidence.recording) == 5


@pytest.mark.parametrize("word", [0, 8, 4097, 1 << 40, f.MASK])
@pytest.mark.parametrize("section", range(6))
def test_a_section_that_lies_elsewhere_is_damage(tmp_path, section, word):
    path = with_word(a_run(tmp_path / "run"), f.H_SECTIONS + 2 * section, word)

    with pytest.raises(UserError, match="is damaged: a section lies outside the file"):
        Recording(path)


def test_records_with_impossible_times_are_left_out_and_told(tmp_path):
    run = a_run(tmp_path / "run")
    path = run / PLACES["recording"]
    offset = struct.unpack_from("<Q", path.read_bytes(), (f.H_SECTIONS + 2 * f.S_RING) * f.WORD)[0]
    with_word(run, offset // f.WORD + 3 * f.RING_WORDS + f.R_START, 1 << 63)

    report = diagnose(run)

    assert f"{path} is damaged: 1 records are left out" in report.notes
    assert len(report.evidence.recording) == 6


def test_which_rank_is_missing_is_found_without_counting_to_the_size_of_the_world():
    def rank(number, **more):
        return Process(node="n", pid=number, parent=1, role="main", world=1 << 62, rank=number, **more)

    beside = Process(node="n", pid=9, parent=1, role="main")
    evidence = Evidence(run=Run(id="x"), recording=[rank(0), rank(1), beside], exits=[Exit(0, 1, 1.0, "waited")])

    with spoiling.within_memory(), spoiling.in_time("members"):
        assert members(Case(evidence))[2].rank is None
        report_on(evidence)
    small = [msgspec.structs.replace(one, world=3) for one in (rank(0), rank(2))]
    assert members(Case(Evidence(run=Run(id="x"), recording=[*small, beside])))[2].rank == 1


@pytest.mark.parametrize(
    "name", ["unrecorded-x", "unrecorded-1-x", "unrecorded-1-99999999999999999999", "unrecorded--"]
)
def test_a_file_that_only_looks_like_a_word_of_ours_is_no_traceback(tmp_path, name):
    run = a_run(tmp_path / "run")
    (run / "recordings" / name).touch()

    assert [one for one in diagnose(run).notes if name in one]


@pytest.mark.parametrize(
    "data", [b'{"id": "\xff"}', b"[" * 100_000, b"\0", b"", b"{}"], ids=["bytes", "deep", "nul", "empty", "nothing"]
)
def test_a_description_that_cannot_be_read_is_one_line(tmp_path, capsys, data):
    run = a_run(tmp_path / "run")
    (run / "run.json").write_bytes(data)

    code, out, err = said_of(capsys, "why", run)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "run.json cannot be read" in err


@pytest.mark.parametrize("data", [b"\xff\xfe", b"[" * 100_000, b'{"type": "begin"}'], ids=["bytes", "deep", "half"])
def test_a_journal_with_bad_lines_is_told_and_its_good_lines_are_used(tmp_path, capsys, data):
    run = a_run(tmp_path / "run")
    path = run / PLACES["journal"]
    path.write_bytes((data + b"\n") * 3 + path.read_bytes())

    code, out, _ = said_of(capsys, "why", run)

    assert (code, "3 of its lines are left out" in out) == (1, True)
    assert "worker-oom-killed" in out  # which the journal alone tells


def test_the_half_line_of_a_watcher_that_was_killed_is_nothing_to_tell(tmp_path):
    run = a_run(tmp_path / "run")
    with (run / PLACES["journal"]).open("ab") as journal:
        journal.write(b'{"type":"look","sample":{"at":1')

    assert diagnose(run).notes == []


def test_a_report_with_bytes_that_are_no_text_is_one_line(tmp_path, capsys):
    (tmp_path / "report.json").write_bytes(b'{"unstuck": "\xff"}')

    code, out, err = said_of(capsys, "why", tmp_path / "report.json")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is not an unstuck report" in err


def test_a_source_file_that_is_a_fifo_or_a_device_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "code.py")

    with spoiling.in_time("fifo"):
        assert gone_over(str(tmp_path / "code.py"), 3, {}) == {}
        assert gone_over("/dev/zero", 3, {}) == {}


def test_code_deeper_than_anybody_writes_is_passed_over(tmp_path):
    (tmp_path / "code.py").write_text("while True:\n    for a in b:\n        x = " + "-" * 900 + "1\n    y = 1\n")

    assert gone_over(str(tmp_path / "code.py"), 4, {}) in ({}, {"b": ""})


PROGRAM = """
import os, sys, time
os.mkfifo(sys.argv[1])
code = "def f():\\n    while True:\\n        for p in []:\\n            pass\\n        time.sleep(0.5)\\nf()\\n"
print("ready", flush=True)
exec(compile(code, sys.argv[1], "exec"))
"""


def test_a_live_process_whose_code_claims_to_be_a_fifo_is_looked_at(tmp_path, unstuck):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path / "src.py"], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        process.stdout.readline()
        wait_for(lambda: "sleep" in Path(f"/proc/{process.pid}/wchan").read_text())
        try:
            ended = unstuck("why", process.pid, "--json")
        finally:
            process.kill()

    assert "Traceback" not in ended.stderr
    assert json.loads(ended.stdout)["activities"]


@pytest.mark.parametrize("number", [1, 9, 15])
def test_a_recording_can_ask_for_no_other_signal_than_those_that_are_registered(tmp_path, number):
    # given a recording that says that this very process writes its stacks at SIGTERM, which it catches
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    (tmp_path / "recordings").mkdir()
    for ending in ("rec", "stacks"):
        (tmp_path / "recordings" / f"{NODE}.1.{os.getpid()}.{started}.{ending}").touch()
    process = Process(node=NODE, pid=os.getpid(), parent=1, role="main", stack_signal=number)

    assert stack_dumps.own_stacks(process, tmp_path) == []


def test_a_snapshot_is_not_written_through_a_link(tmp_path):
    run = a_run(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(run / "snapshots")
    (run / "snapshots").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="a link, which is not followed"):
        run_history.save_snapshot(diagnose(run), run)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_lock_of_a_watcher_is_looked_for_in_the_folder_alone(tmp_path):
    run = a_run(tmp_path / "run")
    (run / "watch-").mkdir()
    os.mkfifo(tmp_path / "aim.lock")
    path = run / PLACES["journal"]
    path.write_bytes(path.read_bytes().replace(f'"node":"{NODE}"'.encode(), b'"node":"/../../aim"'))

    with spoiling.in_time("lock"):
        assert [one.processes_alive for one in diagnose(run).evidence.host] == [False]


@pytest.mark.parametrize("variables", [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "ascii"}])
@pytest.mark.parametrize(
    "words", [["why", "run"], ["logs", "run"], ["why", "run", "--json"], ["explain", "first-batch-slow"]]
)
def test_a_terminal_without_utf_8_gets_all_it_can_show(tmp_path, unstuck, variables, words):
    if "LC_ALL" in variables and not sys.prefix.isascii():
        pytest.skip("in the C locale, Python finds no installation below a folder whose name is not ASCII")
    run = a_run(tmp_path / "run")
    (run / "logs").mkdir()
    log = run / "logs" / "train_20260101_000000.log"
    log.write_text("[2026-01-01 00:00:00,000] [INFO] [unstuck.run] epoch 1 · loss 0.5 … 猫\n")
    plain = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **variables}

    ended = subprocess.run(
        [sys.executable, "-m", "unstuck", *words], cwd=tmp_path, env=plain, capture_output=True, check=False
    )

    assert b"Traceback" not in ended.stderr
    assert b"UnicodeEncodeError" not in ended.stderr
    assert ended.stdout
    if words[0] == "logs":
        assert rb"\u732b" in ended.stdout


def _never_ends():
    while True:
        with contextlib.suppress(Exception):
            threading.Event()


def test_bounds_of_these_tests_are_noticed(monkeypatch):
    """The fence itself: what takes too long is ended, also where every exception is caught."""
    monkeypatch.setattr(spoiling, "SECONDS", 0.2)
    with pytest.raises(KeyboardInterrupt, match="it takes too long"), spoiling.in_time("counting"):
        _never_ends()
