"""Iterators that are made for every step and thrown away, by their counts: on evidence that is made up."""

from __future__ import annotations

import pytest

from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Timing
from unstuck.evidence.distributed import Phase
from unstuck.evidence.loader import Loader, Pass
from unstuck.evidence.process import Process

NAME = "next-iter-every-step"


def loader(number: int = 1, iterators: int = 25, each: int = 2, length: int | None = 125, **more) -> Loader:
    """It began at 5 s; making an iterator and waiting for its first batch took 0.2 s each time."""
    told = {
        "num_workers": 2, "batch_size": 16, "passes": iterators, "batches": iterators * each, "length": length,
        "starts": Timing(iterators, 0.15 * iterators), "first_waits": Timing(iterators, 0.05 * iterators),
        "waits": Timing(iterators * (each - 1), 0.01 * iterators), "bodies": Timing(iterators * (each - 1), 0.01),
        "began": 5.0,
    }  # fmt: skip
    return Loader(number, **{**told, **more})


def causes(*loaders: Loader, steps: int = 25, until: float = 14.0, phases: tuple[Phase, ...] = ()) -> list[str]:
    main = Process(
        node="node", pid=7, parent=1, role="main", ended=until, last_sign=until, loaders=list(loaders),
        optimizer_steps=steps, first_step=5.5, last_step=until - 0.1, phases=list(phases),
    )  # fmt: skip
    report = report_on(Evidence(Run("run", status=0), recording=[main]))
    return [one.cause for one in report.findings if one.rule == NAME and one.role == "root"]


def test_a_prefetcher_that_is_made_in_every_step_takes_two_batches_of_each_iterator():
    (cause,) = causes(loader())

    assert cause.startswith("Every step restarts 2 workers: each new iterator of DataLoader ")
    assert "dropped after 2 batches" in cause


def test_a_batch_that_is_trained_on_several_times_does_not_hide_it():
    (cause,) = causes(loader(), steps=75)

    assert cause.startswith("The loop restarts 2 workers every few steps: each new iterator of DataLoader ")


def test_batches_that_are_accumulated_for_one_step_do_not_hide_it():
    assert causes(loader(each=4)) != []


@pytest.mark.parametrize(
    "healthy",
    [
        pytest.param({"ended": [Pass(number, 2) for number in range(1, 17)]}, id="gone through to its end"),
        pytest.param({"length": 2}, id="all that the loader has"),
        pytest.param({"iterators": 5}, id="few iterators"),
        pytest.param({"each": 50, "length": 1000}, id="long passes"),
    ],
)
def test_iterators_that_are_used_are_left_alone(healthy):
    steps = healthy.get("each", 2) * healthy.get("iterators", 25)

    assert causes(loader(**healthy), steps=steps) == []


def test_a_start_that_takes_little_of_the_time_is_left_alone():
    assert causes(loader(), until=60.0) == []


def test_a_validation_of_two_batches_beside_a_training_is_left_alone():
    training = loader(iterators=1, each=76, optimizer_steps=76, bodies=Timing(76, 5.0))

    assert causes(training, loader(2), steps=76) == []


def test_a_validation_of_two_batches_beside_a_training_without_a_loader_is_left_alone():
    known = [Phase("validation", 0, 5.0, loader=1, number_of_pass=number, batches=2) for number in range(1, 26)]

    assert causes(loader(), steps=25, phases=tuple(known)) == []
