"""The arithmetic of a memory prediction: what is multiplied by what, how it is graded, what is proposed."""

from __future__ import annotations

import pytest

from unstuck.evidence.trial import IMPOSSIBLE, SAFE, TIGHT, Loaded, Needs, Shuffle
from unstuck.trials.budget.advice import advised
from unstuck.trials.budget.predict import Plan, batches_of_one, budget, grade, grown_after, needs_of
from unstuck.trials.memory import Room

MB, GB = 1_000_000, 1_000_000_000
PLENTY = Room(1 << 50, "machine", 1 << 50, 1 << 50)


def sample(size, decode=0, **more):
    return Loaded(size=size, storage=size, shm=size, held=size, peak=size + decode, **more)


def needs(size=10 * MB, decode=0, **more):
    return Needs([sample(size, decode)], base=0, worker=0, objects=0, method="fork", **more)


def term(found, name):
    return next((one.size for one in found.terms if one.name == name), 0)


def test_waiting_batches_are_shipped_bytes_times_batch_times_prefetch_times_workers():
    found = budget(needs(10 * MB), Plan(workers=8, batch=4, prefetch=3), PLENTY)

    assert term(found, "waiting") == 8 * 3 * 4 * 10 * MB == found.formula
    assert found.shm == 8 * 3 * 4 * 10 * MB + 4 * 10 * MB  # and the one in use


def test_without_workers_nothing_is_loaded_ahead_and_nothing_lies_in_shared_memory():
    found = budget(needs(), Plan(workers=0, batch=4, prefetch=8), PLENTY)

    assert (term(found, "waiting"), found.shm, found.prefetch, found.shm_grade) == (0, 0, 0, "")
    assert term(found, "being made") == 2 * 4 * 10 * MB  # its samples, and the batch


def test_what_decoding_takes_is_counted_once_a_worker_not_once_a_sample():
    plan = Plan(workers=4, batch=2, prefetch=2)
    few, much = (budget(needs(10 * MB, decode), plan, PLENTY) for decode in (0, 500 * MB))

    finished = 2 * 10 * MB  # while a sample is made, the batch it belongs to is not waiting yet
    assert much.rank - few.rank == 4 * (500 * MB - finished)


def test_every_worker_has_a_shuffle_buffer_of_raw_samples():
    buffer = Shuffle("webdataset's .shuffle()", elements=1000, element=530 * MB, looked=3)

    found = budget(needs(220 * MB, shuffles=[buffer]), Plan(workers=16, batch=1), PLENTY)

    assert term(found, "shuffle buffer") == 16 * 1000 * 530 * MB
    assert found.largest().name == "shuffle buffer"


def test_a_buffer_holds_no_more_than_there_is_to_read():
    buffer = Shuffle("webdataset's .shuffle()", elements=1000, element=MB, looked=3, source=50 * MB)

    assert term(budget(needs(shuffles=[buffer]), Plan(4, 1), PLENTY), "shuffle buffer") == 50 * MB


def test_a_larger_shuffle_buffer_is_answered_with_what_it_costs_and_that_it_saves_no_read():
    buffer = Shuffle("webdataset's .shuffle()", elements=1000, element=MB, looked=3)

    told = advised(needs(shuffles=[buffer]), Plan(2, 1), PLENTY).notes

    assert any("10,000 would take" in one and "not save one read" in one for one in told)


def test_forked_workers_copy_python_objects_and_spawned_ones_everything():
    holding = {"objects": 100 * MB, "arrays": 900 * MB}
    forked = Needs([sample(MB)], base=0, worker=0, method="fork", **holding)
    spawned = Needs([sample(MB)], base=0, worker=0, method="spawn", **holding)

    assert term(budget(forked, Plan(3, 1), PLENTY), "dataset copies") == 300 * MB
    assert term(budget(spawned, Plan(3, 1), PLENTY), "dataset copies") == 3000 * MB


def test_allocator_overhead_is_what_a_busy_worker_took_beyond_what_it_held():
    measured = needs(10 * MB, grown=[(64, 160 * MB)], grown_batch=8)  # it held eight samples: twice as much was taken

    found = budget(measured, Plan(workers=4, batch=8), PLENTY)

    assert term(found, "allocator") == term(found, "being made")


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, 100),  # nobody knows where it ends: as far as was seen
        ({"in_a_pass": 8 * 4 * 16}, 40),  # each of four workers hands over sixteen batches, and ends
        ({"in_a_pass": 8 * 4 * 16, "lasting": True}, 100),  # and here it goes on with the next pass
        ({"settles": 128}, 180),  # it grows on as it went, until torch cleans up
    ],
)
def test_a_worker_grows_with_every_batch_that_it_hands_over(facts, expected):
    measured = needs(grown=[(8, 10 * MB), (16, 40 * MB), (32, 60 * MB), (64, 100 * MB)], grown_batch=8, **facts)

    batches = batches_of_one(measured, 4, 8)

    assert grown_after(measured, batches) == expected * MB


def test_all_of_it_is_there_once_for_every_rank_of_the_node():
    one, eight = (budget(needs(), Plan(2, 4, ranks=ranks), PLENTY) for ranks in (1, 8))

    assert (eight.rank, eight.node, eight.shm) == (one.rank, 8 * one.rank, 8 * one.shm)


@pytest.mark.parametrize(("needed", "expected"), [(69, SAFE), (71, TIGHT), (100, TIGHT), (101, IMPOSSIBLE)])
def test_it_is_graded_against_what_there_is(needed, expected):
    assert grade(needed, 100) == expected


@pytest.mark.parametrize(
    ("workers", "prefetch", "batch", "queue", "expected"),
    [(32, 2, 32, 4096 * GB, IMPOSSIBLE), (16, 1, 16, 512 * GB, TIGHT), (8, 1, 8, 128 * GB, SAFE)],
)
def test_the_worked_examples_on_a_machine_of_one_terabyte(workers, prefetch, batch, queue, expected):
    found = budget(needs(2 * GB), Plan(workers, batch, prefetch), Room(1 << 40, "--memory", 1 << 50, 1 << 50))

    assert (found.formula, found.grade) == (queue, expected)


def test_the_formula_with_the_peak_of_a_sample_is_told_to_be_too_high():
    volume = 480 * 480 * 240 * 4

    told = advised(needs(volume, 2 * GB - volume), Plan(32, 32, 2), PLENTY)

    assert told.node < 1 << 40  # not 4 TB
    assert any("would say" in one for one in told.notes)


def test_settings_that_would_do_are_calculated_with_the_same_numbers():
    plan, there = Plan(workers=16, batch=8, prefetch=4), Room(8 * GB, "machine", 1 << 50, 1 << 50)

    found = advised(needs(10 * MB), plan, there)

    assert found.grade != SAFE
    assert found.safer[0].grade == SAFE
    assert found.safer[0].setting == "prefetch_factor=3"
    assert found.safer[0].node == budget(needs(10 * MB), plan._replace(prefetch=3), there).node


def test_shared_memory_is_graded_apart():
    found = budget(needs(), Plan(4, 8), Room(1 << 50, "machine", 64 << 20, 64 << 20))

    assert (found.grade, found.shm_grade) == (SAFE, IMPOSSIBLE)


def test_what_nobody_has_measured_is_said():
    told = advised(Needs([sample(MB)], method="fork"), Plan(2, 1), PLENTY).assumed

    assert [one.partition(":")[0] for one in told] == ["main process", "workers", "dataset copies"]


def test_facts_of_a_trial_that_broke_off_are_enough_for_what_they_tell():
    found = needs_of({"samples": [{"index": 3, "held": 5, "shm": 4096}], "base": 7})

    assert (found.samples[0].index, found.base, found.worker, found.batch) == (3, 7, None, None)
