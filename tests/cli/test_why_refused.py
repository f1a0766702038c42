"""`unstuck why PID` where it may not look, or cannot: the reason is told, what can be had is used, it always ends."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from stuck import ROOT, TRAINING, needs_root, place_at, wait_for, without_ptrace
from unstuck.probes import stack_dumps

SYSTEM_PYTHON = Path("/usr/bin/python3")
IMPORTS = f"{ROOT / 'src'}{os.pathsep}{sysconfig.get_path('purelib')}"
SLEEPS = "import time\ntime.sleep(100)\n"
REFUSED = "ptrace is refused here (no CAP_SYS_PTRACE)"


def why(*words, before=(), python=sys.executable, **options):
    command = [*before, str(python), "-m", "unstuck", "why", *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    assert "Traceback" not in ended.stderr
    return ended


@pytest.fixture
def place(tmp_path):
    with place_at(tmp_path) as place:
        yield place


def start(place):
    """A small Python program: what can be read of it is what matters here."""
    process = place.start(sys.executable, "-c", SLEEPS)
    wait_for(lambda: Path(f"/proc/{process.pid}/wchan").read_text() == "hrtimer_nanosleep")
    return process.pid


def with_py_spy(folder, program):
    """A Python that has this program as the py-spy installed beside it; or none."""
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    if program is not None:
        (folder / "bin" / "py-spy").write_text(program)
        (folder / "bin" / "py-spy").chmod(0o755)
    return {"python": folder / "bin" / "python", "env": {**os.environ, "PYTHONPATH": IMPORTS, "PATH": "/usr/bin:/bin"}}


def test_another_users_process_is_one_clear_line(place):
    needs_root("setpriv")
    version = subprocess.run([SYSTEM_PYTHON, "-V"], capture_output=True, text=True, check=False).stdout
    if not version.startswith(f"Python 3.{sys.version_info.minor}."):
        pytest.skip("needs a Python of this version that every user may run")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    pid = start(place)

    ended = why(pid, before=nobody, python=SYSTEM_PYTHON, cwd="/", env={"PYTHONPATH": IMPORTS, "PATH": "/usr/bin"})

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"unstuck: process {pid} belongs to root, and you may not look into it; look as root\n"


@pytest.mark.scenario
def test_a_process_that_nobody_prepared_and_that_may_not_be_traced_has_no_stacks_and_a_reason(place):
    pid = start(place)

    ended = why(pid, "--json", before=without_ptrace())

    report = json.loads(ended.stdout)
    assert (ended.returncode, report["state"]) == (2, "unknown")
    assert f"no stacks of pid {pid}: {REFUSED}" in report["notes"]
    assert "stacks" in [one["needs"] for one in report["not_checked"]]


@pytest.mark.scenario
def test_a_recorded_run_that_may_not_be_traced_gives_its_stacks_itself(place):
    place.run()
    wait_for(lambda: "batch 4" in place.out)
    main, worker = wait_for(lambda: len(found := place.trainings("train.py")) > 1 and found[:2])
    place.told("✗ stuck[")

    report = json.loads(why(main, "--json", "--with-evidence", before=without_ptrace()).stdout)

    calls = {one["pid"]: one["frames"] for one in report["evidence"]["stacks"] if one["tid"] == one["pid"]}
    told = f"pid {main}, {worker}: {REFUSED}; it was asked by a signal to write its Python stacks itself"
    assert (report["findings"][0]["pid"], report["findings"][0]["where"]["line"]) == (worker, 10)
    assert calls[worker][0]["function"] == "__getitem__"
    assert calls[main][-1]["function"] == "<module>"
    assert not [frame for one in calls.values() for frame in one if frame["file"].startswith(f"{ROOT}/src/unstuck/")]
    assert told in report["notes"]
    place.let_go()
    wait_for(lambda: place.out.endswith("done\n"))


@pytest.mark.scenario
def test_the_list_says_why_it_does_not_know_what_a_training_does(place):
    pid = place.start(sys.executable, place.write(TRAINING), place.fifo).pid
    wait_for(lambda: "batch 4" in place.out)

    listed = json.loads(why("--json", before=without_ptrace()).stdout)["trainings"]

    assert [one["doing"] for one in listed if one["pid"] == pid] == [[f"unknown: {REFUSED}"]]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (None, "py-spy is not installed beside unstuck"),
        ("#!/bin/sh\necho 'Error: the stars {0} are wrong' >&2; exit 1\n", "py-spy: Error: the stars {0} are wrong"),
        ('#!/bin/sh\necho \'{"not": "a dump\'\n', "py-spy's answer cannot be read"),
        ("#!/bin/sh\nprintf '\\377\\376\\000'\n", "py-spy's answer cannot be read"),
        ("#!/bin/sh\nkill -SEGV $$\n", "py-spy failed without a message"),
        ("no program at all", "py-spy could not be started (Exec format error)"),
    ],
    ids=["missing", "fails", "garbage", "bytes", "crashes", "not a program"],
)
def test_without_a_working_py_spy_there_are_no_stacks_and_a_reason(tmp_path, monkeypatch, program, reason):
    python = with_py_spy(tmp_path, program)
    monkeypatch.setattr(sys, "executable", str(python["python"]))
    monkeypatch.setenv("PATH", python["env"]["PATH"])

    for dump in (stack_dumps.dumps([1, 2])[1], stack_dumps.native_dumps([1])[1]):
        assert dump.threads == []
        assert dump.refused.startswith(reason)


@pytest.mark.scenario
def test_a_report_without_stacks_says_so_and_calls_nothing_healthy(place):
    pid = start(place)
    garbage = "#!/bin/sh\necho '{not a dump}'\n"

    ended = why(pid, "--json", **with_py_spy(place.folder, garbage))

    report = json.loads(ended.stdout)
    assert (ended.returncode, report["state"], report["findings"]) == (2, "unknown", [])
    assert report["notes"][0].startswith(f"no stacks of pid {pid}: py-spy's answer cannot be read")


@pytest.mark.scenario
def test_a_py_spy_that_hangs_is_not_waited_for_again_and_again(place):
    pid = start(place)
    asked = place.folder / "asked"
    hangs = f"#!/bin/sh\necho once >> {shlex.quote(str(asked))}\nexec sleep 1000\n"

    ended = why(pid, "--json", **with_py_spy(place.folder, hangs))

    assert asked.read_text() == "once\n"
    assert json.loads(ended.stdout)["notes"] == [f"no stacks of pid {pid}: py-spy gave no answer within 8 s"]


@pytest.mark.scenario
def test_a_py_spy_that_hangs_on_native_calls_leaves_what_it_gave_before(place):
    main = place.start(sys.executable, place.write(TRAINING), place.fifo).pid
    wait_for(lambda: "batch 4" in place.out)
    real = Path(sys.executable).with_name("py-spy")
    picky = f'#!/bin/sh\ncase "$*" in *--nonblocking*) exec {shlex.quote(str(real))} "$@";; esac\nexec sleep 100\n'

    report = json.loads(why(main, "--json", **with_py_spy(place.folder, picky)).stdout)

    assert [one["rule"] for one in report["findings"]] == ["worker-blocked-io"]
