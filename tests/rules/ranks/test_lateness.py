"""Which rank the others wait for, on evidence that is made up: order, nodes, dispatchers, kinds of collectives."""

from __future__ import annotations

import pytest

from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.evidence.basics import Timing
from unstuck.evidence.distributed import Collective, Phase, Span
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Process
from unstuck.rules.ranks._lateness import is_own, latest

STEP = 0.1
STEPS = 40


def rank(number: int, arrivals: list[float], **facts: object) -> Process:
    collectives = [Collective(position + 1, "all_reduce", at, finished=True) for position, at in enumerate(arrivals)]
    known = {"node": "a", "world": 2, "optimizer_steps": STEPS, "collectives": collectives, **facts}
    return Process(pid=10 + number, parent=1, role="main", rank=number, **known)  # type: ignore[arg-type]


def judged(*ranks: Process) -> int | None:
    late = latest(Case(Evidence(run=Run("x"), recording=list(ranks))))
    return late.process.rank if late is not None else None


def steps(late: float, count: int = STEPS) -> list[float]:
    return [number * STEP + late for number in range(count)]


def test_the_rank_that_comes_last_at_every_step_is_it():
    late = latest(Case(Evidence(run=Run("x"), recording=[rank(0, steps(0.0)), rank(1, steps(0.04))])))

    assert late is not None
    assert late.process.rank == 1
    assert late.by == pytest.approx(0.04, rel=0.1)
    assert late.step == pytest.approx(STEP, rel=0.1)


def test_lateness_that_changes_hands_is_nobodys():
    turns = [number * STEP + 0.04 * (number % 2) for number in range(STEPS)]
    others = [number * STEP + 0.04 * (1 - number % 2) for number in range(STEPS)]

    assert judged(rank(0, turns), rank(1, others)) is None


def test_a_rank_that_is_late_once_for_all_of_its_workers_is_late():
    stripes = [number * STEP + (0.08 if number % 4 == 0 else 0.0) for number in range(STEPS)]

    assert judged(rank(0, steps(0.0)), rank(1, stripes)) == 1


def test_a_disturbance_that_passes_is_no_straggler():
    disturbed = [number * STEP + (0.08 if number < 12 else 0.0) for number in range(STEPS)]

    assert judged(rank(0, steps(0.0)), rank(1, disturbed)) is None


def test_delays_of_collectives_that_wait_for_each_other_add_up():
    first = [number * STEP + part for number in range(STEPS) for part in (0.0, 0.05)]
    second = [at + 0.02 for at in first]

    late = latest(Case(Evidence(run=Run("x"), recording=[rank(0, first), rank(1, second)])))

    assert late is not None
    assert late.by == pytest.approx(0.04, rel=0.1)


def test_one_delay_is_counted_once_for_all_collectives_of_one_backward():
    def backward(late: float) -> list[Collective]:
        return [
            Collective(2 * number + part + 1, "all_reduce", number * STEP + part * 0.01 + late, calls="backward")
            for number in range(STEPS)
            for part in (0, 1)
        ]

    ranks = [rank(0, [], collectives=backward(0.0)), rank(1, [], collectives=backward(0.04))]
    late = latest(Case(Evidence(run=Run("x"), recording=ranks)))

    assert late is not None
    assert late.by == pytest.approx(0.04, rel=0.1)


def test_what_one_rank_does_between_two_passes_is_no_step():
    begins = [Phase("validation", 0, at=number * STEP + 0.01, ended=number * STEP + 0.03) for number in range(STEPS)]

    assert judged(rank(0, steps(0.0)), rank(1, steps(0.04), phases=begins)) is None


def test_a_rank_that_has_no_more_data_inside_of_join_is_first_by_design():
    assert judged(rank(0, steps(0.0), spans=[Span("Join", 0.0)]), rank(1, steps(0.04))) is None


def test_a_rank_that_loads_for_all_is_last_by_design():
    dispatcher = Loader(1, type="accelerate.data_loader.DataLoaderDispatcher")

    assert judged(rank(0, steps(0.04), loaders=[dispatcher]), rank(1, steps(0.0))) is None


def own(ran: tuple[float, float], queued: tuple[float, float]) -> bool:
    """Two ranks, the second 40 ms later in steps of 100; which part of the time each ran and had no core."""
    samples = [
        Sample(at, processes=[
            Memory(10 + number, cpu=ran[number] * at, main_cpu=ran[number] * at, queued=queued[number] * at)
            for number in (0, 1)
        ])
        for at in (0.0, 2.0, 4.0)
    ]  # fmt: skip
    ranks = [rank(0, steps(0.0)), rank(1, steps(0.04))]
    found = Evidence(run=Run("x"), recording=ranks, host=[Host("a", cpus=2, samples=samples)])
    late = latest(Case(found))
    assert late is not None
    return is_own(Case(found), late)


def test_a_rank_that_computes_longer_is_late_by_itself():
    assert own((0.5, 0.9), (0.05, 0.05))


def test_a_rank_that_only_has_no_core_is_not_late_by_itself():
    assert not own((0.5, 0.5), (0.05, 0.4))


def test_a_rank_whose_delay_is_its_own_is_found_on_a_machine_that_holds_up_both():
    assert own((0.3, 0.6), (0.2, 0.25))


def test_threads_that_a_rank_waits_for_are_held_up_as_it_is():
    samples = [
        Sample(at, processes=[Memory(10, cpu=0.9 * at, main_cpu=0.3 * at, queued=0.0),
                              Memory(11, cpu=0.9 * at, main_cpu=0.3 * at, queued=0.13 * at)])
        for at in (0.0, 2.0, 4.0)
    ]  # fmt: skip
    ranks = [rank(0, steps(0.0)), rank(1, steps(0.04))]
    found = Evidence(run=Run("x"), recording=ranks, host=[Host("a", cpus=2, samples=samples)])

    assert not is_own(Case(found), latest(Case(found)))


def loader(waits: float, bodies: float) -> Loader:
    times = (Timing(STEPS, one * STEPS) for one in (waits, bodies))
    return Loader(1, optimizer_steps=STEPS, waits=next(times), bodies=next(times))


def test_clocks_of_two_nodes_are_not_compared():
    assert judged(rank(0, steps(0.0)), rank(1, steps(0.04), node="b")) is None


def test_across_nodes_the_mirror_image_of_the_waits_tells():
    slow, other = loader(0.08, 0.02), loader(0.01, 0.09)

    assert judged(rank(0, steps(0.0), loaders=[other]), rank(1, steps(0.0), node="b", loaders=[slow])) == 1


def test_a_rank_that_waits_longer_for_data_while_nobody_waits_for_it_is_none():
    slow, other = loader(0.08, 0.02), loader(0.01, 0.02)

    assert judged(rank(0, [], loaders=[other]), rank(1, [], loaders=[slow])) is None
