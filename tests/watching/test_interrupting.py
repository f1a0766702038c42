"""A stuck run that is stopped, interrupted, or loses its watcher or its disk: nothing is left behind or lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

import pytest

from stuck import PRINTED, RANKS, TORCHRUN, TRAINING, needs_root, place_at, wait_for

pytestmark = pytest.mark.scenario

STUCK = "✗ stuck["
LOOK = ("py-spy", "unstuck.watching.stalls")
OURS = "-m unstuck run"  # a folder may be called unstuck, too
# The disk that the recordings lie on is full once the training has begun.
FILLS = TRAINING.replace(
    '        print("batch", number, flush=True)\n',
    """        if number == 0:
            try:
                with open("runs/filler", "wb", buffering=0) as filler:
                    while True:
                        filler.write(bytes(4096))
            except OSError as error:
                print(error.strerror, file=sys.stderr)
        print("batch", number, flush=True)
""",
)


@pytest.fixture
def place(tmp_path):
    with place_at(tmp_path) as place:
        yield place


def report_of(place):
    (file,) = place.folder.glob("unstuck-runs/*/report.json")
    return json.loads(file.read_bytes())


def watcher_of(place):
    """The process beside the command, which holds this node's lock."""
    (lock,) = place.folder.glob("unstuck-runs/*/watch-*.lock")
    return int(lock.read_text().split()[2])


def test_all_ranks_and_workers_of_a_stopped_run_are_gone(place):
    running = place.run("--on-stall", "stop-always", program=RANKS, python=TORCHRUN)

    assert running.wait(timeout=120) == 124, place.err
    assert place.processes() == []
    finding = report_of(place)["findings"][0]
    assert (finding["rule"], finding["rank"], finding["worker"]) == ("silent-rank-data-stall", 0, 0)
    assert f"cat {place.fifo}" in finding["cause"]


def test_a_killed_watcher_leaves_no_look_behind_and_the_exit_code_is_the_commands(place):
    running = place.run()
    wait_for(lambda: place.processes(*LOOK))

    os.kill(watcher_of(place), signal.SIGKILL)
    wait_for(lambda: not place.processes(*LOOK))
    place.let_go()

    assert running.wait(timeout=60) == 0
    assert place.out == PRINTED
    assert "[unstuck] the watcher ended early (signal 9); the run is unaffected" in place.err


def test_a_killed_parent_leaves_the_training_running_and_its_watcher_judges_it(place):
    running = place.run()
    place.told(STUCK)

    running.kill()
    running.wait()
    place.let_go()

    wait_for(lambda: not place.processes(OURS))
    assert place.out == PRINTED
    assert "the run goes on after" in place.err
    assert report_of(place)["state"] == "healthy"


def test_a_signal_during_a_look_is_passed_on_at_once_and_ends_the_look(place):
    running = place.run()
    wait_for(lambda: place.processes(*LOOK))

    running.terminate()

    assert running.wait(timeout=30) == 128 + signal.SIGTERM
    assert place.processes(*LOOK, OURS) == []


def test_a_run_that_its_user_interrupts_still_names_why_it_was_stuck(place):
    terminal, end = os.openpty()
    running = place.run(before=("setsid", "--ctty", "--wait"), stdin=end)
    place.told(STUCK)

    os.write(terminal, b"\x03")

    assert running.wait(timeout=60) != 0
    wait_for(lambda: not place.processes(OURS))
    findings = report_of(place)["findings"]
    assert [one["rule"] for one in findings if one["role"] == "root"] == ["worker-blocked-io"]
    assert place.err.count(STUCK) == 1
    os.close(terminal)
    os.close(end)


def test_a_stall_is_judged_and_the_training_goes_on_when_the_disk_is_full(place):
    needs_root("unshare", "mount")
    (place.folder / "runs").mkdir()
    mounted = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=24M tmpfs runs && exec "$@"', "sh")

    running = place.run("--run-dir", "runs", "--report", "report.json", program=FILLS, before=mounted)
    place.told(STUCK)
    place.let_go()

    assert running.wait(timeout=60) == 0, place.err
    assert place.out == PRINTED
    assert "No space left on device" in place.err
    assert "the run goes on after" in place.err
    assert "Traceback" not in place.err
    assert json.loads((place.folder / "report.json").read_text())["run"]["command"][0] == sys.executable


def test_a_watcher_that_is_out_of_descriptors_goes_on_watching(place):
    running = place.run()
    wait_for(lambda: "batch 4" in place.out)
    watcher = watcher_of(place)
    limits = resource.prlimit(watcher, resource.RLIMIT_NOFILE)

    resource.prlimit(watcher, resource.RLIMIT_NOFILE, (3, limits[1]))
    place.told("looking for the cause failed (Too many open files)")
    resource.prlimit(watcher, resource.RLIMIT_NOFILE, limits)
    place.let_go()

    assert running.wait(timeout=60) == 0, place.err
    assert place.out == PRINTED
    assert "Traceback" not in place.err
