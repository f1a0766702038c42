"""Stages of loading a sample: the user's own, those of known readers, what is inside of which, and the slowest item."""

from __future__ import annotations

from collections.abc import Callable

from running import BEGIN, Run

Recorded = Callable[..., Run]

PICTURES = (
    BEGIN
    + """
import time, traceback
import numpy
class Pictures(Numbers):
    def __getitem__(self, index):
        with unstuck.stage("volume", item=f"study_{index:03}") as stage:
            time.sleep(0.3 if index == 5 else 0.002)
            stage.made(numpy.zeros((2, 3)))
            with unstuck.stage("inner"):
                numpy.load(path)
        numpy.load(path)
        sum(range(20_000))
        return index
path = __file__ + ".npy"
numpy.save(path, numpy.zeros(4))
numpy.load(path)
"""
)


def test_a_reader_inside_a_stage_is_part_of_it_and_one_outside_of_samples_is_none(recorded: Recorded) -> None:
    run = recorded(PICTURES + "list(DataLoader(Pictures(20), batch_size=2, num_workers=1))").succeeded()
    worker = run.workers[0].process()
    assert {name: one.count for name, one in worker.stages.items()} == {
        "volume": 20,
        "inner": 20,
        "read (numpy.load)": 20,
    }
    # then what the stages took together counts the inner one once
    outermost = worker.stages["volume"].total + worker.stages["read (numpy.load)"].total
    assert abs(worker.staged - outermost) < 1e-6
    assert run.main.process().stages == {}


def test_the_slowest_item_is_known_by_its_name_and_the_slowest_sample_by_its_index(recorded: Recorded) -> None:
    run = recorded(PICTURES + "list(DataLoader(Pictures(20), batch_size=2, num_workers=1))").succeeded()
    slowest = {one.stage: one for one in run.workers[0].process().slowest}
    assert slowest["volume"].item == "study_005"
    assert slowest["volume"].seconds >= 0.3
    assert slowest["sample"].index == 5


def test_a_stage_that_sleeps_uses_no_processor(recorded: Recorded) -> None:
    run = recorded(PICTURES + "list(DataLoader(Pictures(40), batch_size=2))").succeeded()
    process = run.main.process()
    share = process.stage_cpu["volume"].mean / process.stages["volume"].mean
    assert share < 0.7
    assert process.stage_cpu["volume"].count == 5  # one in eight


UNLIKE = (
    BEGIN
    + """
import time, numpy
class Unlike(Numbers):
    def __getitem__(self, index):
        with unstuck.stage("work"):
            if index % 8 == 1:
                time.sleep(0.02)
            else:
                until = time.thread_time() + 0.005
                while time.thread_time() < until:
                    pass
        numpy.load(path)
        return index
path = __file__ + ".npy"
numpy.save(path, numpy.zeros(1 << 17))
list(DataLoader(Unlike(64), batch_size=2))
"""
)


def test_processor_time_time_and_bytes_are_of_the_same_calls_and_of_every_kind_of_item(recorded: Recorded) -> None:
    process = recorded(UNLIKE).succeeded().main.process()
    # given items of which every eighth sleeps: then the times that are measured are not all of these
    assert process.stage_cpu["work"].count == process.stage_cpu_of["work"].count == 8
    assert process.stage_cpu["work"].total >= 7 * 0.005
    assert process.stage_cpu_of["work"].total >= process.stage_cpu["work"].total
    # and the bytes are those of each stage
    assert process.stage_read["work"] < 8 * 4096
    assert process.stage_read["read (numpy.load)"] >= 8 << 20
    load = process.fetching[0]
    assert 0 < load.cpu.count == load.cpu_of.count
    assert load.cpu.total <= load.cpu_of.total


def test_what_a_reader_raises_is_the_users(recorded: Recorded) -> None:
    run = recorded(
        PICTURES
        + """
class Broken(Numbers):
    def __getitem__(self, index):
        try:
            numpy.load("/nowhere.npy")
        except FileNotFoundError as error:
            assert unstuck.__path__[0] not in "".join(traceback.format_exception(error))
            return index
print(len(list(DataLoader(Broken(4)))))
"""
    ).succeeded()
    assert run.out == "4\n"
    assert run.main.process().adapters_failed == []


def test_worker_init_fn_is_a_stage_of_the_worker(recorded: Recorded) -> None:
    run = recorded(
        PICTURES
        + """
def prepare(worker):
    time.sleep(0.2)
list(DataLoader(Numbers(4), num_workers=1, worker_init_fn=prepare))
"""
    ).succeeded()
    worker = run.workers[0].process()
    assert worker.stages["worker_init_fn"].total >= 0.2
    assert worker.stages_now == []
