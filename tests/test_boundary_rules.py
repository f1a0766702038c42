"""What is told of the time between epochs, of collecting garbage and of compiling again, and what is left unsaid."""

from __future__ import annotations

import msgspec
import pytest

from unstuck.diagnose import report_on
from unstuck.logs.trends import Trend
from unstuck.model.between import OWN, STARTING, VALIDATION, Compiled, Gap, Part
from unstuck.model.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.model.places import Place
from unstuck.model.recorded import Fetching, Loader, Pass, Process, State
from unstuck.model.report import Finding
from unstuck.model.timing import Timing

LINE = Place("/model.py", 12, "forward")


def process(loader: Loader | None = None, **fields) -> Process:
    """One that trained from second 0 to second 20."""
    known = loader or Loader(number=1)
    known = msgspec.structs.replace(
        known, batches=200, passes=4, optimizer_steps=200, states=[State(0.0, 1)], ended=[Pass(4, 50, 19.0)]
    )
    fetched = [Fetching(1, fetches=Timing(200, 2.0, 0.02))]
    told = {"loaders": [known], "fetching": fetched, **fields}
    return Process(node="node", pid=7, parent=1, role="main", ended=20.0, last_sign=20.0, **told)


def found(one: Process, waits: str | None = None) -> list[Finding]:
    """`waits`: what its main thread was met at, every half second of the run."""
    looks = [] if waits is None else [Sample(at / 2, processes=[Memory(7, waits=waits)]) for at in range(40)]
    evidence = Evidence(Run("run", status=0), recording=[one], host=[Host("node", cpus=2, samples=looks)])
    return [each for each in report_on(evidence).findings if each.role == "root"]


def boundaries(*parts: Part, seconds: float = 3.0) -> Loader:
    return Loader(number=1, boundaries=[Gap(5.0 * number, seconds, number, list(parts)) for number in (1, 2, 3)])


def test_own_code_between_epochs_counts_where_it_waits():
    (one,) = found(process(boundaries()), "wait4")

    assert one.rule == "epoch-boundary-gap"
    assert "waiting for a process" in one.cause


@pytest.mark.parametrize("waits", ["", "futex", None])
def test_own_code_that_may_be_computing_is_no_fault(waits):
    assert found(process(boundaries()), waits) == []


def test_validation_between_epochs_is_what_one_expects_there():
    assert found(process(boundaries(Part(VALIDATION, "", 2.9))), "clock_nanosleep") == []


def test_what_is_known_of_the_boundary_needs_no_look_at_it():
    (one,) = found(process(boundaries(Part(STARTING, "", 2.0), Part(VALIDATION, "", 0.9))))

    assert one.rule == "epoch-boundary-gap"
    assert STARTING in one.cause
    assert OWN not in one.cause


def test_short_boundaries_are_no_matter_even_of_short_epochs():
    assert found(process(boundaries(Part(STARTING, "", 0.6), seconds=0.6))) == []


def test_collecting_garbage_is_told_by_its_share_of_the_loops():
    (one,) = found(process(collecting=Timing(190, 8.0, 0.2)))

    assert one.rule == "gc-pauses"
    assert "nearly every batch" in one.remedy.text
    assert found(process(collecting=Timing(190, 1.5, 0.2))) == []
    assert found(process(collecting=Timing(2, 8.0, 6.0))) == []


def compiled(count: int, seconds: float, reason: str, *, limited: bool = False) -> list[Compiled]:
    again = [Compiled(1.0 + one, seconds, LINE, reason, one + 2, limited) for one in range(count)]
    return [Compiled(0.5, 30.0, LINE), *again]


def test_compiling_once_and_twice_again_is_what_compiling_costs():
    assert found(process(compiled=compiled(0, 0.0, ""))) == []
    assert found(process(compiled=compiled(2, 5.0, "0/0: tensor 'x' size mismatch at index 0"))) == []


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("0/1: tensor 'x' size mismatch at index 0. expected 8, actual 9", "dynamic=True"),
        ("0/1: self.steps == 4       # self.steps += 1", "Make self.steps a tensor"),
        ("0/1: lr == 0.1", "as a tensor"),
        ("2/1: len(parts) == 3", "instead of a list"),
        ("0/1: GLOBAL_STATE changed: grad_mode", "GLOBAL_STATE changed"),
    ],
)
def test_the_remedy_is_that_of_the_guard_that_did_not_hold(reason, remedy):
    (one,) = found(process(compiled=compiled(4, 1.0, reason)))

    assert one.rule == "compile-recompiles"
    assert remedy in one.remedy.text


def test_a_function_that_torch_gave_up_is_told_however_little_time_it_took():
    (one,) = found(process(compiled=compiled(1, 0.01, "0/7: lr == 0.1", limited=True)))

    assert "runs uncompiled" in one.cause


def trend(values: list[float]) -> str:
    known = Trend()
    for step, value in enumerate(values):
        known.add(step * 0.5, step, value)
    return known.words()


def test_a_trend_needs_twenty_values_and_tells_the_last_ten_against_the_ten_before():
    assert trend([1.0] * 19) == ""
    assert trend([1.0] * 10 + [0.5] * 10) == "; 2 steps/s; last 10 fell by 50 % against the 10 before"
    assert trend([0.5] * 10 + [1.0] * 10).endswith("last 10 rose by 100 % against the 10 before")
    assert trend([1.0] * 20).endswith("last 10 level with the 10 before")
    assert trend([1.0] * 19 + [float("nan")]) == "; 2 steps/s"
