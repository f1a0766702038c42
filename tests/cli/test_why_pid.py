"""`unstuck why PID` on live trainings: any pid of a run leads to all of it; recorded or not, the cause is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from stuck import RANKS, TORCHRUN, TRAINING, parent_of, place_at, wait_for
from unstuck.cli import main as cli
from unstuck.report import Training
from unstuck.views.console import console_for
from unstuck.views.listing import show_trainings


def why(unstuck, *words, **options):
    ended = unstuck("why", *words, "--json", **options)
    assert "Traceback" not in ended.stderr
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A stuck training that nobody prepared. Gives its place and the pids of its main process and its worker."""
    with place_at(tmp_path_factory.mktemp("plain")) as place:
        main = place.start(sys.executable, place.write(TRAINING), place.fifo).pid
        wait_for(lambda: "batch 4" in place.out)
        (worker,) = wait_for(lambda: [pid for pid in place.processes() if pid != main])
        yield place, main, worker


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The same under `unstuck run`."""
    with place_at(tmp_path_factory.mktemp("recorded")) as place:
        place.run()
        wait_for(lambda: "batch 4" in place.out)
        main, worker = wait_for(lambda: len(found := place.trainings("train.py")) > 1 and found[:2])
        yield place, main, worker


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("4194305", "there is no process 4194305 on this machine"),
        ("99999999999999999999", "there is no process 99999999999999999999 on this machine"),
        ("0", "there is no process 0 on this machine"),
        ("-5", "-5 does not exist; name a pid or a run folder"),
        ("12a", "12a does not exist; name a pid or a run folder"),
    ],
)
def test_a_target_that_is_no_process_is_one_clear_line(capsys, target, says):
    code = cli.main(["why", target])

    said = capsys.readouterr()
    assert (code, said.out, said.err.count("\n")) == (2, "", 1)
    assert says in said.err


def test_a_process_that_runs_no_python_is_one_clear_line(capsys):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as sleep:
        code = cli.main(["why", str(sleep.pid)])
        sleep.kill()

    said = capsys.readouterr()
    assert (code, said.out, said.err.count("\n")) == (2, "", 1)
    assert f"process {sleep.pid} (sleep) runs no Python" in said.err


def test_a_process_that_has_ended_but_is_not_reaped_is_one_clear_line(capsys):
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        code = cli.main(["why", str(zombie.pid)])

    assert (code, capsys.readouterr().err.count("\n")) == (2, 1)


@pytest.mark.scenario
def test_any_pid_of_a_run_leads_to_the_same_verdict(tmp_path, unstuck):
    with place_at(tmp_path) as place:
        launcher = place.start(*TORCHRUN, place.write(RANKS), place.fifo).pid
        (cat,) = wait_for(lambda: place.processes("cat "))
        worker = parent_of(cat)

        reports = [why(unstuck, pid, "--with-evidence") for pid in (launcher, worker, cat)]

    found = [one["findings"][0] for one in reports]
    details = [one["findings"][1] for one in reports]
    runs = [sorted((seen["pid"], seen["role"]) for seen in one["evidence"]["processes"]) for one in reports]
    assert {(one["rule"], one["rank"], one["worker"], one["pid"]) for one in found} == {
        ("silent-rank-data-stall", 0, 0, worker)
    }
    assert {(one["rule"], one["role"]) for one in details} == {("worker-blocked-io", "consequence")}
    assert runs[0] == runs[1] == runs[2]
    assert sorted(role for _, role in runs[0]) == ["helper", "launcher", "main", "main", "worker", "worker"]


@pytest.mark.scenario
def test_a_training_that_nobody_prepared(plain, unstuck):
    place, main, worker = plain

    ended = unstuck("why", main)

    said = " ".join(ended.stdout.split())
    assert ended.returncode == 1
    assert "✗ stuck[" in said
    assert f"is blocked on FIFO {place.fifo.name} (sample 20): no writer" in said
    assert f"ls -l {place.fifo}" in said
    assert f"pid {worker} is asleep" in said
    assert "train.py:10" in said


@pytest.mark.scenario
def test_of_a_recorded_run_both_kinds_of_evidence_are_used(recorded, unstuck):
    _, main, worker = recorded

    report = why(unstuck, worker, "--with-evidence")

    (finding,) = report["findings"]
    evidence = report["evidence"]
    fetching = next(one for one in evidence["recording"] if one["pid"] == worker)["fetching"]
    assert (finding["rule"], finding["worker"], finding["pid"]) == ("worker-blocked-io", 0, worker)
    assert "(sample 20)" in finding["cause"]
    assert [one["index"] for one in fetching] == [20]
    assert {one["pid"] for one in evidence["stacks"]} == {main, worker}
    assert "loader: DataLoader[Files] (train.py:15)" in finding["seen"]


@pytest.mark.scenario
def test_without_a_target_the_trainings_on_this_machine_are_listed(plain, recorded, unstuck):
    ended = unstuck("why")
    (folder,) = (recorded[0].folder / "unstuck-runs").iterdir()

    listed = {one["pid"]: one for one in why(unstuck)["trainings"]}

    assert ended.returncode == 0
    assert all(f"{main} " in ended.stdout for _, main, _ in (plain, recorded))
    for _, main, worker in (plain, recorded):
        assert (listed[main]["processes"], listed[main]["ranks"], listed[main]["workers"]) == (2, 1, 1)
        assert worker not in listed
        assert "waiting for data" in listed[main]["doing"][0]
    assert (listed[plain[1]]["folder"], listed[recorded[1]]["folder"]) == ("", str(folder))


def test_where_no_training_runs_the_list_says_so(tmp_path):
    """In a namespace of its own there are no others."""
    if os.getuid() != 0:
        pytest.skip("needs root, for a namespace of its own")
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

    said, listed = (
        subprocess.run(
            [*alone, sys.executable, "-m", "unstuck", "why", *more], capture_output=True, text=True, check=False
        )
        for more in ([], ["--json"])
    )

    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("No PyTorch training is visible on this machine")
    assert json.loads(listed.stdout)["trainings"] == []


def test_what_looks_like_markup_in_a_command_is_listed_as_it_is(capsys):
    training = Training(4242, "train.py data[/b].lst [red]", 1.0, 1, 1, 0, ["standing at train.py:1 ([/b])"])

    show_trainings([training], console_for(sys.stdout))

    said = " ".join(capsys.readouterr().out.split())
    assert "train.py data[/b].lst [red]" in said
    assert "([/b])" in said


@pytest.mark.scenario
def test_two_thousand_other_processes_are_no_obstacle(plain, unstuck):
    _, main, worker = plain
    crowd = "for i in $(seq 2000); do sleep 600 & done; echo all; wait"
    with subprocess.Popen(["sh", "-c", crowd], start_new_session=True, stdout=subprocess.PIPE) as shell:
        try:
            assert shell.stdout.readline() == b"all\n"

            (finding,) = why(unstuck, main)["findings"]
            listed = [one["pid"] for one in why(unstuck)["trainings"]]
        finally:
            os.killpg(shell.pid, signal.SIGKILL)

    assert (finding["rule"], finding["pid"]) == ("worker-blocked-io", worker)
    assert main in listed


AHEAD = """
import sys, time
real, ahead = time.time, float(sys.argv.pop(1))
time.time = lambda: real() + ahead  # as after NTP has set the clock
from unstuck.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
GOES_ON = """
import time
from torch.utils.data import DataLoader

for number, batch in enumerate(DataLoader(list(range(100_000)))):
    print("batch", number, flush=True)
    time.sleep(0.5)
"""


@pytest.mark.scenario
@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_clock_that_was_set_during_the_run_makes_it_no_stall(tmp_path, ahead):
    with place_at(tmp_path) as place:
        program = place.write(GOES_ON)
        looker = place.write(AHEAD, "ahead.py")
        place.start(sys.executable, "-m", "unstuck", "run", "--", sys.executable, program)
        wait_for(lambda: "batch 3" in place.out)
        (main,) = place.trainings(program.name)[:1]

        said = subprocess.run(
            [sys.executable, looker, str(ahead), "why", str(main), "--json"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert (json.loads(said.stdout)["state"], said.returncode) == ("healthy", 0), said.stderr
