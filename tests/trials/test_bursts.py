"""Loaders that make many batches at once: timed from the end of one refill to the end of another."""

from __future__ import annotations

import time

import pytest
from torch.utils.data import DataLoader, IterableDataset

from unstuck.trials.child.loaders import rebuilt
from unstuck.trials.child.stand_ins import endless
from unstuck.trials.child.timing import Timed, noise_of_cycles, refills, whole_cycles

QUICK, LONG = 0.001, 0.5


def burst(length: int) -> list[float]:
    return [LONG, *[QUICK] * (length - 1)]


def test_time_goes_from_the_end_of_a_refill_to_the_end_of_another():
    assert whole_cycles([*burst(16), *burst(16), *burst(16), QUICK, QUICK], workers=1) == [0, 16, 32]


def test_workers_that_refill_at_the_same_time_are_one_refill():
    together = [*[LONG] * 4, *[QUICK] * 60]

    assert refills([*together, *together, *together], workers=4).ends == [3, 67, 131]


def test_a_refill_is_over_when_every_worker_has_delivered_since():
    assert refills([*burst(16), LONG, QUICK], workers=2).ends == [0]
    assert refills([*burst(16), LONG, QUICK, QUICK], workers=2).ends == [0, 16]


def test_a_steady_loader_has_no_bursts_nor_has_one_whose_workers_deliver_in_rounds():
    assert whole_cycles([LONG] * 100, workers=1) == []
    assert whole_cycles([LONG, QUICK, QUICK, QUICK] * 50, workers=4) == []


def test_a_single_interruption_is_no_burst():
    assert whole_cycles([QUICK] * 500 + [LONG / 10] + [QUICK] * 500, workers=2) == []


def test_noise_is_what_cycles_differ_by():
    ends, sizes = [0, 2, 4, 6, 8], [1] * 9

    assert noise_of_cycles(ends, [float(at) for at in range(9)], sizes) == 0
    assert noise_of_cycles(ends, [0, 0, 1, 1, 4, 4, 5, 5, 8], sizes) == pytest.approx(0.5774 / 2, rel=0.01)


class RowGroups(IterableDataset):
    """A hundred samples are made in 0.2 s, then handed over."""

    def __iter__(self):
        while True:
            time.sleep(0.2)
            yield from range(100)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_what_was_made_before_the_first_batch_is_not_counted(workers):
    loader = DataLoader(RowGroups(), batch_size=4, num_workers=workers)
    changes, drawn = endless(loader)
    timed = Timed(rebuilt(loader, **changes), drawn, workers, None)
    timed.warm_up(0.3)

    found = timed.run(0.12)
    timed.end()

    assert found["rate"] < 510 * max(workers, 1)  # five hundred from each, and no more
