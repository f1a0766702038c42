"""How large a busy worker gets: by its share of a pass, and no larger than when torch has cleaned up."""

from __future__ import annotations

from unstuck.evidence.trial import Loaded, Needs
from unstuck.trials.budget.predict import Plan, batches_of_one, budget, grown_after, needs_of
from unstuck.trials.memory import Room

MB = 1_000_000
SEEN = [(1, 21 * MB), (32, 57 * MB), (64, 99 * MB)]
PLENTY = Room(1 << 50, "machine", 1 << 50, 1 << 50)


def needs(grown=SEEN, settles=65, in_a_pass: int | None = 2048, **more):
    one = Loaded(size=MB, storage=MB, shm=MB, held=MB, peak=MB)
    return Needs(
        [one], base=0, worker=0, objects=0, method="fork", grown=grown, settles=settles, in_a_pass=in_a_pass, **more
    )


def test_a_worker_that_ends_with_its_pass_has_made_its_share_of_it():
    assert [batches_of_one(needs(), workers, batch=32) for workers in (2, 4, 64)] == [32, 16, 1]


def test_one_that_goes_on_with_the_next_pass_or_has_no_end_in_sight_grows_until_torch_cleans_up():
    assert batches_of_one(needs(lasting=True), 4, 32) == batches_of_one(needs(in_a_pass=None), 4, 32) == 65


def test_a_long_share_counts_no_further_than_to_where_torch_cleans_up():
    assert batches_of_one(needs(in_a_pass=1_000_000), 2, 32) == 65


def test_between_two_looks_it_has_grown_evenly():
    assert grown_after(needs(), 32) == 57 * MB
    assert grown_after(needs(), 48) == 78 * MB


def test_where_time_was_too_short_it_is_continued_as_it_went():
    tried = [(1, 21 * MB), (8, 30 * MB), (16, 40 * MB), (20, 45 * MB)]

    assert grown_after(needs(tried), 60) == 45 * MB + 40 * MB * 15 // 12  # as from the 8th to the 20th


def test_a_few_batches_are_not_continued():
    assert grown_after(needs([(1, 20 * MB), (2, 30 * MB), (4, 40 * MB)]), 65) == 40 * MB


def test_the_more_workers_share_an_epoch_the_less_allocator_overhead_each_has():
    def each(workers):
        found = budget(needs(), Plan(workers, 32), PLENTY)
        return next(one for one in found.terms if one.name == "allocator").size // workers

    assert each(2) > each(4) > each(8) > 0


def test_a_term_says_how_many_batches_it_is_for_and_how_many_were_tried():
    few = budget(needs([(1, 21 * MB), (20, 60 * MB)]), Plan(2, 32), PLENTY)

    (how,) = (one.how for one in few.terms if one.name == "allocator")
    assert "after 32 batches (20 were tried)" in how


def test_the_length_of_a_pass_is_the_loaders_own_and_of_a_stream_where_its_worker_has_ended():
    mapped = {"length": 63, "batch_size": 32, "batch_sampler": "BatchSampler", "persistent_workers": True}
    stream = {"length": None, "iterable": True}

    assert needs_of({"loader": mapped}).in_a_pass == 63 * 32
    assert needs_of({"loader": mapped}).lasting
    assert needs_of({"loader": {**mapped, "batch_sampler": None}}).in_a_pass == 63  # whole batches
    assert needs_of({"loader": stream, "busy": {"in_a_pass": 100}}).in_a_pass == 100
    assert needs_of({"loader": stream, "busy": {"in_a_pass": None}}).in_a_pass is None
