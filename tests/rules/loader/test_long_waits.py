"""Waits that stand out: what each was for, and when a rule makes something of them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kept import KEPT
from unstuck.analysis.case import Case
from unstuck.evidence import Evidence
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Failure, Process
from unstuck.inside.format import MASK, Kind
from unstuck.recordings.loaders import waits_of, with_spikes
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

SECOND = 1_000_000_000
LOADER = Loader(number=1, num_workers=3, pids=[100, 101, 102])


class Recorded:
    """The events of one process, as a recording gives them: kind, start, seconds, a."""

    def __init__(self, *events: tuple[int, float, float, int]) -> None:
        rows = [
            (n + 1, kind, 1, int(at * SECOND), int(took * SECOND), a, 0, 0)
            for n, (kind, at, took, a) in enumerate(events)
        ]
        self.rows = np.array(rows, dtype=np.uint64).reshape(-1, 8)

    def events(self, kind: int, key: int | None = None) -> np.ndarray:
        return self.rows[self.rows[:, 1] == kind]


def worker(number: int) -> Process:
    return Process(node="node", pid=100 + number, parent=1, role="worker", worker=number)


def spikes_of(loop: Recorded, *workers: Recorded) -> Loader:
    waits = waits_of(loop, LOADER, lambda moment: moment / SECOND)
    recorded = {100 + number: one for number, one in enumerate(workers)}
    return with_spikes(LOADER, waits, [worker(n) for n in range(len(workers))], lambda one: recorded[one.pid])


def usual(until: float) -> list[tuple[int, float, float, int]]:
    return [(Kind.WAIT, at / 10, 0.001, 1) for at in range(int(until * 10))]


def test_a_wait_is_for_the_fetch_that_ended_it_and_its_slowest_sample():
    loop = Recorded(*usual(10), (Kind.WAIT, 10.0, 3.0, 25))
    blocks = Recorded(
        (Kind.FETCH, 1.0, 0.1, 8), (Kind.FETCH, 9.9, 3.05, 8), (Kind.SAMPLE, 9.9, 0.1, 6), (Kind.SAMPLE, 10.0, 2.9, 7)
    )
    slow_too = Recorded((Kind.FETCH, 1.0, 0.1, 8), (Kind.FETCH, 9.8, 4.0, 8), (Kind.SAMPLE, 9.8, 4.0, 9))
    idle = Recorded((Kind.FETCH, 1.0, 0.1, 8))

    (spike,) = spikes_of(loop, slow_too, blocks, idle).spikes

    assert (spike.worker, spike.index, spike.batch, spike.at) == (1, 7, 25, 10.0)
    assert spike.sample_seconds == pytest.approx(2.9)
    assert spike.idle == 1


def test_a_worker_that_fetches_while_the_loop_waits_is_not_idle():
    loop = Recorded(*usual(10), (Kind.WAIT, 10.0, 3.0, 25))
    busy = Recorded((Kind.FETCH, 9.0, 3.5, 8), (Kind.FETCH, 12.5, 3.0, 8))

    (spike,) = spikes_of(loop, Recorded((Kind.FETCH, 9.9, 3.05, 8)), busy, busy).spikes

    assert (spike.worker, spike.idle) == (0, 0)


def test_workers_of_earlier_epochs_are_gone_and_not_idle():
    loader = Loader(number=1, num_workers=2, pids=[100, 101, 102, 103, 104, 105])
    loop = Recorded(*usual(10), (Kind.WAIT, 10.0, 3.0, 25))
    before, after = Recorded((Kind.FETCH, 1.0, 0.1, 8)), Recorded((Kind.FETCH, 15.0, 0.1, 8))
    recorded = dict(enumerate([before, before, Recorded((Kind.FETCH, 9.9, 3.05, 8)), before, after, after], 100))
    workers = [msgspec.structs.replace(worker(n), started=7.0 * (n // 2)) for n in range(6)]

    waits = waits_of(loop, loader, lambda moment: moment / SECOND)
    (spike,) = with_spikes(loader, waits, workers, lambda one: recorded[one.pid]).spikes

    assert (spike.pid, spike.idle) == (102, 1)


def test_an_index_that_is_no_number_is_not_given():
    loop = Recorded(*usual(10), (Kind.WAIT, 10.0, 3.0, 25))
    stream = Recorded((Kind.FETCH, 9.9, 3.05, 8), (Kind.SAMPLE, 9.9, 3.0, MASK))

    (spike,) = spikes_of(loop, stream).spikes

    assert spike.index is None
    assert spike.sample_seconds == pytest.approx(3.0)


def test_a_wait_whose_fetch_is_no_longer_in_the_recording_is_kept_without_a_culprit():
    (spike,) = spikes_of(Recorded(*usual(10), (Kind.WAIT, 10.0, 3.0, 25)), Recorded()).spikes

    assert spike.pid is None


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param([(Kind.WAIT, 0.0, 30.0, 0), *usual(10)], id="the first batch"),
        pytest.param([(Kind.WAIT, float(at), 0.8, 1) for at in range(20)], id="even"),
        pytest.param([*usual(10), (Kind.WAIT, 10.0, 0.3, 9)], id="short"),
    ],
)
def test_waits_that_do_not_stand_out(waits):
    assert waits_of(Recorded(*waits), LOADER, float) is None


def evidence(rule: str) -> Evidence:
    file = KEPT / rule / "found.json"
    return msgspec.json.decode(file.read_bytes(), type=Evidence)


def changed(found: Evidence, loader: dict, process: dict | None = None, status: int | None = None) -> Evidence:
    """The same with another loader in its main process."""
    replace = msgspec.structs.replace
    recording = [
        replace(one, loaders=[replace(each, **loader) for each in one.loaders], **(process or {}))
        if one.role == "main"
        else one
        for one in found.recording
    ]
    run = found.run if status is None else replace(found.run, status=status)
    return replace(found, recording=recording, run=run)


def verdict(rule: str, found: Evidence) -> str:
    return judge_one(all_rules()[rule], Case(found)).verdict


def spiky(found: Evidence) -> Loader:
    return next(one.loaders[0] for one in found.recording if one.role == "main")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda one: {"in_order": False}, id="handed out as they come"),
        pytest.param(lambda one: {"spikes": one.spikes[:1]}, id="once"),
        pytest.param(
            lambda one: {"spikes": [msgspec.structs.replace(each, idle=0) for each in one.spikes]}, id="all are busy"
        ),
        pytest.param(lambda one: {"spiked": 0.05 * one.spiked_of}, id="little of the time"),
        pytest.param(
            lambda one: {"spikes": [msgspec.structs.replace(each, pid=None) for each in one.spikes]}, id="whose"
        ),
    ],
)
def test_nothing_is_held_back(change):
    found = evidence("in-order-head-of-line")

    assert verdict("in-order-head-of-line", found) == "found"
    assert verdict("in-order-head-of-line", changed(found, change(spiky(found)))) == "clear"


@pytest.mark.parametrize(
    ("loader", "process", "status"),
    [
        pytest.param({}, {"alive": True}, None, id="it still runs"),
        pytest.param({}, {"failures": []}, 0, id="it stopped by itself"),
        pytest.param(
            {}, {"failures": [Failure(how="uncaught", type="ValueError")]}, 1, id="it failed for another reason"
        ),
        pytest.param({}, {"failures": []}, -9, id="it was killed"),
        pytest.param({"passes": 3, "batches": 2400, "pass_batches": 800}, {}, None, id="it left earlier epochs alike"),
        pytest.param({"pass_batches": 80, "num_workers": 2}, {}, None, id="two workers gave the whole dataset each"),
        pytest.param({"length": None, "dataset_length": None}, {}, None, id="no length is announced"),
    ],
)
def test_an_epoch_that_may_well_end_is_left_alone(loader, process, status):
    found = evidence("epoch-never-ends")

    assert verdict("epoch-never-ends", found) == "found"
    assert verdict("epoch-never-ends", changed(found, loader, process, status)) == "clear"
