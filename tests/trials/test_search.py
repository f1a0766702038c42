"""The search for settings, on curves that were made up."""

from __future__ import annotations

import random

import pytest

from unstuck.evidence.trial import Measured
from unstuck.trials.tune.proposals import formula
from unstuck.trials.tune.search import exhaustive, feed, feeds, grid, search
from unstuck.trials.tune.standings import Bounds, Setting, Standings, merged, potential

MIB = 1 << 20


def driven(questions, seen, measure):
    """Answers every question; a search that does not end fails by its number of questions."""
    found = None
    for _ in range(10_000):
        try:
            setting = next(questions) if found is None else questions.send(found)
        except StopIteration:
            return seen
        found = measure(setting)
    raise AssertionError("it never ends")


class Machine:
    """A loader on a machine: throughput by workers, deeper prefetch and order, with noise and memory."""

    def __init__(self, rate, noise=0.0, seed=0, memory=None, deeper=1.0, unordered=1.0, scatter=0.0, fails=None):
        self.rate, self.noise, self.random = rate, noise, random.Random(seed)
        self.deeper, self.unordered, self.scatter, self.fails = deeper, unordered, scatter, fails or {}
        self.each, self.asked = memory or 10 * MIB, []

    def true(self, setting):
        found = self.rate(setting.workers)
        if setting.workers:
            found *= {1: 0.97, 2: 1.0, 4: self.deeper, 8: self.deeper}[setting.prefetch]
            found *= 1.0 if setting.in_order else self.unordered
        return found

    def __call__(self, setting):
        self.asked.append(setting)
        if setting.workers in self.fails:
            return Measured(setting.words(), **setting._asdict(), failed=self.fails[setting.workers], took=1.0)
        rate = self.true(setting) * self.random.gauss(1, self.noise)
        slots = setting.workers * (setting.prefetch or 0)
        starved = None
        if setting.step:
            takes = 8 / setting.step
            starved = max(0.0, 1 - rate / takes) + (0.5 / slots**2 if slots else 1.0) * 0.1
        return Measured(
            setting.words(), **setting._asdict(), batches=100, samples=int(rate * 100), seconds=100.0, rate=rate,
            noise=self.noise, scatter=self.scatter, starved=starved, took=1.0, shm=slots * MIB,
            memory=200 * MIB + setting.workers * self.each + slots * MIB,
        )  # fmt: skip


CURVES = {
    "rises to 4 and stays": lambda w: 100.0 * min(max(w, 0.9), 4),
    "rises to 6 and stays": lambda w: 100.0 * min(max(w, 0.9), 6),
    "rises to the end": lambda w: 100.0 * max(w, 0.9),
    "rises and falls": lambda w: 100.0 * max(w, 0.9) / (1 + (w / 5) ** 2),
    "falls from 2 on": lambda w: 100.0 * (max(w, 1) if w <= 2 else 2 * 0.8 ** (w - 2)),
    "best without workers": lambda w: 1000.0 if not w else 300.0 * min(w, 2),
    "workers pay late": lambda w: 500.0 if not w else 130.0 * w,
    "flat": lambda w: 100.0,
    "ever less": lambda w: 100.0 * (max(w, 0.9) ** 0.5),
    "a knee at 3, then hardly more": lambda w: 100.0 * min(max(w, 0.9), 3) + min(w, 16),
    "one worker is enough": lambda w: 60.0 if not w else 100.0,
}


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.08])
@pytest.mark.parametrize("processors", [2, 8, 16])
@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_the_search_is_as_good_as_the_grid_within_noise_in_a_quarter_of_its_measurements(curve, processors, noise):
    for seed in range(5):
        machine, seen = Machine(curve, noise, seed), Standings(Bounds(processors))
        driven(search(seen), seen, machine)

        chosen, every = seen.best(), grid(seen.bounds)
        reached = machine.true(Setting(chosen.workers, chosen.prefetch, chosen.in_order))
        assert reached >= max(map(machine.true, every)) * (1 - 0.04 - 3 * noise)
        assert len(machine.asked) <= len(every) / 4


def test_the_grid_measures_everything():
    machine, seen = Machine(CURVES["rises and falls"]), Standings(Bounds(2))

    driven(exhaustive(seen), seen, machine)

    assert len(machine.asked) == 1 + 8 * 4 * 2
    assert seen.best().workers == 5


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
@pytest.mark.parametrize("memory", [260, 330, 500])
def test_nothing_is_tried_that_would_not_fit_into_memory(curve, memory):
    machine = Machine(curve, 0.01, memory=20 * MIB)
    seen = Standings(Bounds(8, memory * MIB))

    driven(search(seen), seen, machine)

    assert max(one.memory for one in seen.order) <= memory * MIB
    assert seen.best() is not None


def test_as_many_workers_as_fit_are_found():
    seen = Standings(Bounds(8, 330 * MIB))

    driven(search(seen), seen, Machine(CURVES["rises to the end"], memory=20 * MIB))

    assert seen.best().workers == 4  # 200 MiB and 22 for each worker, of 297 that may be planned with


def test_a_setting_that_turned_out_to_need_more_memory_than_there_is_is_not_chosen():
    seen = Standings(Bounds(8, 205 * MIB))

    driven(search(seen), seen, Machine(CURVES["rises to the end"]))

    assert seen.best().workers == 0


def test_shared_memory_is_a_limit_of_its_own():
    seen = Standings(Bounds(8, shm=6 * MIB))

    driven(search(seen), seen, Machine(CURVES["rises to the end"]))

    assert max(one.shm for one in seen.order) <= 6 * MIB


def test_a_setting_that_fails_is_passed_over():
    machine = Machine(CURVES["rises to the end"], fails={2: "it hung"})
    seen = Standings(Bounds(8))

    driven(search(seen), seen, machine)

    assert seen.best().workers == 32


def test_more_workers_are_not_tried_after_one_that_ran_out_of_memory():
    machine = Machine(CURVES["rises to the end"], fails=dict.fromkeys(range(4, 99), "it took more memory than it may"))
    seen = Standings(Bounds(8))

    driven(search(seen), seen, machine)

    assert max(one.workers for one in machine.asked) == 4
    assert seen.best().workers in (2, 3)


def test_where_workers_fail_others_that_are_started_anew_are_tried():
    class Forked(Machine):
        def __call__(self, setting):
            self.fails = {} if setting.context or not setting.workers else {setting.workers: "it hung"}
            return super().__call__(setting)

    seen = Standings(Bounds(8))

    driven(search(seen), seen, Forked(CURVES["rises to the end"]))

    assert seen.best().context == "forkserver"


def test_a_loader_that_fails_whatever_is_tried_is_given_up_soon():
    machine = Machine(CURVES["flat"], fails=dict.fromkeys(range(99), "ValueError"))
    seen = Standings(Bounds(8))

    driven(search(seen), seen, machine)

    assert len(machine.asked) == 3
    assert seen.best() is None


@pytest.mark.parametrize(("deeper", "depth"), [(1.2, 4), (0.97, 2)])
def test_prefetching_is_deepened_only_where_that_helps(deeper, depth):
    seen = Standings(Bounds(8))

    driven(search(seen), seen, Machine(CURVES["rises to 4 and stays"], deeper=deeper))

    assert seen.best().prefetch == depth


@pytest.mark.parametrize(("scatter", "tried"), [(0.05, False), (0.6, True)])
def test_order_is_given_up_only_where_loading_times_scatter(scatter, tried):
    machine = Machine(CURVES["rises to 4 and stays"], scatter=scatter, unordered=1.3)
    seen = Standings(Bounds(8))

    driven(search(seen), seen, machine)

    assert any(not one.in_order for one in machine.asked) == tried
    assert seen.best().in_order != tried


def test_an_older_torch_is_never_asked_to_give_up_order():
    machine = Machine(CURVES["rises to 4 and stays"], scatter=0.6)
    seen = Standings(Bounds(8, orders=False))

    driven(search(seen), seen, machine)

    assert all(one.in_order for one in machine.asked)


def test_what_was_measured_while_data_came_from_the_disk_is_measured_again():
    class Disk(Machine):
        def __call__(self, setting):
            found = super().__call__(setting)
            cold = len(self.asked) <= 2
            return Measured(**{**{name: getattr(found, name) for name in found.__struct_fields__},
                               "read": found.samples * 100_000 if cold else 0})  # fmt: skip

    machine = Disk(CURVES["rises to 4 and stays"])
    seen = Standings(Bounds(8))
    driven(search(seen), seen, machine)

    assert machine.asked.count(Setting(0)) == machine.asked.count(Setting(1, 2)) == 2
    assert seen.data() == "disk first"


def test_what_the_loader_has_now_is_measured_too():
    seen = Standings(Bounds(8, configured=Setting(5, 3)))

    driven(search(seen), seen, Machine(lambda w: 100.0 * min(w or 1, 4), fails={5: ""}))

    assert Setting(5, 3) in seen


@pytest.mark.parametrize(("step", "workers"), [(0.04, 2), (0.0161, 5), (0.027, 3)])
def test_the_cheapest_setting_that_keeps_a_training_fed_is_found(step, workers):
    machine = Machine(lambda w: 100.0 * max(w, 0.9), 0.002)
    seen = Standings(Bounds(8))

    driven(feed(seen, 8, step), seen, machine)

    fed = [setting for setting in seen.results if setting.step and feeds(seen.of(setting))]
    assert min(one.workers for one in fed) == workers
    assert len(machine.asked) <= 16


def test_a_training_that_no_setting_feeds_is_tried_with_the_best_there_is():
    machine = Machine(CURVES["rises to 4 and stays"])
    seen = Standings(Bounds(8))

    driven(feed(seen, 8, 0.001), seen, machine)

    tried = [seen.of(setting) for setting in seen.results if setting.step]
    assert len(tried) == 1
    assert tried[0].starved > 0.9


def test_repetitions_that_differ_say_how_much_noise_there_is():
    one = merged([
        Measured("a", samples=100, seconds=1.0, rate=100.0, noise=0.01),
        Measured("a", samples=140, seconds=1.0, rate=140.0, noise=0.01),
    ])  # fmt: skip

    assert one.rate == 120.0
    assert one.noise == pytest.approx(0.118, abs=0.001)
    assert one.times == 2


def test_between_two_numbers_nothing_is_looked_for_where_the_curve_is_flat():
    points = [Measured("", workers=w, rate=r) for w, r in ((1, 100.0), (2, 200.0), (4, 400.0), (8, 400.0), (16, 400.0))]

    assert potential(points[2:])[0] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("processors", "gpus", "workers"), [(40, 2, 32), (32, 1, 16), (32, 4, 28), (2, 1, 0), (64, 0, 16)]
)
def test_the_usual_formula_is_given_with_its_numbers(processors, gpus, workers):
    found, said = formula(processors, gpus)

    assert found == workers
    assert f"{processors} CPU cores" in said
