"""A run that stands still under `unstuck run`: what is told, how often, when it is ended and when it is let be."""

from __future__ import annotations

import json
import sys
import time

import pytest

from stuck import PRINTED, place_at

pytestmark = pytest.mark.scenario

STUCK = "✗ stuck["
SLEEPS = "import time, torch\ntime.sleep({seconds})\n"
# A checkpoint of 2 MB that goes to a slow disk, bit by bit, for a quarter of a minute.
SAVES = """
import io, os, time, torch

class SlowDisk(io.RawIOBase):
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    def writable(self):
        return True
    def write(self, data):
        for start in range(0, len(data), 20000):
            os.write(self.fd, bytes(data[start:start + 20000]))
            time.sleep(0.15)
        return len(data)

torch.save({"weights": torch.ones(500_000)}, SlowDisk("model.pt"))
print(torch.load("model.pt")["weights"].sum().item())
"""


@pytest.fixture
def place(tmp_path):
    with place_at(tmp_path) as place:
        yield place


def report_of(place):
    (file,) = place.folder.glob("unstuck-runs/*/report.json")
    return json.loads(file.read_bytes())


def test_a_stall_that_ends_by_itself_is_told_once_and_so_is_its_end(place):
    running = place.run("--report", "report.json")
    place.told(STUCK)
    during = json.loads((place.folder / "report.json").read_text())
    time.sleep(4)  # several ticks in which it could be told again

    place.let_go()

    assert running.wait(timeout=60) == 0
    assert place.err.count(STUCK) == 1
    assert place.err.count("[unstuck] the run goes on after") == 1
    assert place.err.index("the run goes on") > place.err.index(STUCK)
    assert place.out == PRINTED
    assert (during["state"], during["findings"][0]["rule"]) == ("stuck", "worker-blocked-io")
    assert json.loads((place.folder / "report.json").read_text())["state"] != "stuck"


def test_a_stalled_run_is_stopped_when_asked_for_and_its_cause_is_passed_on_once(place):
    note = place.write('echo "$1 $UNSTUCK_REPORT" >> told; exit 3\n', "note.sh")

    running = place.run("--on-stall", "stop", "--on-finding", f"sh {note}")

    assert running.wait(timeout=90) == 124
    assert place.processes() == []
    (file,) = place.folder.glob("unstuck-runs/*/report.json")
    assert (place.folder / "told").read_text() == f"{file} {file}\n"
    assert report_of(place)["findings"][0]["rule"] == "worker-blocked-io"
    assert report_of(place)["findings"][0]["subject"] == {"kind": "fifo", "name": str(place.fifo)}
    assert place.err.count(STUCK) == 1


def test_a_stall_without_a_cause_is_stopped_where_that_and_its_length_were_asked_for(place):
    running = place.run("--on-stall", "stop-always", "--stall-after", "3", program=SLEEPS.format(seconds=100))

    assert running.wait(timeout=90) == 124
    assert report_of(place)["state"] == "waiting"
    assert "! waiting" in place.err


@pytest.mark.parametrize(("more", "told"), [((), "[unstuck] no progress for"), (("--stall-after", "3"), "! waiting")])
def test_a_stall_without_a_certain_cause_is_never_stopped_without_asking_for_that(place, more, told):
    running = place.run("--on-stall", "stop", *more, program=SLEEPS.format(seconds=16))

    assert running.wait(timeout=90) == 0
    assert told in place.err
    assert report_of(place)["findings"] == []


def test_a_run_is_not_stopped_while_it_saves_a_checkpoint(place):
    running = place.run("--on-stall", "stop-always", "--stall-after", "3", program=SAVES)

    assert running.wait(timeout=90) == 0, place.err
    assert place.out == "500000.0\n"
    assert "saving a checkpoint" in place.err


def test_a_run_that_cannot_be_recorded_is_watched_from_outside(place, unstuck):
    running = place.run(python=(sys.executable, "-I"))
    place.told(STUCK)
    main = min(place.trainings("-I"))
    looked = json.loads(unstuck("why", main, "--json").stdout)["findings"][0]

    place.let_go()

    assert running.wait(timeout=60) == 0
    assert place.err.count("it is watched from outside only") == 1
    assert place.err.count(STUCK) == 1
    assert looked["rule"] == "worker-blocked-io"
    assert looked["cause"].rstrip(".") in " ".join(place.err.split())
    assert report_of(place)["findings"] == []
