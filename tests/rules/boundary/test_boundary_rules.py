"""What is told of the time between epochs, of collecting garbage and of compiling again, and what is left unsaid."""

from __future__ import annotations

import msgspec
import pytest

from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Glance, Host, Memory, Run, Sample
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.finding import Finding
from unstuck.evidence.live import Frame
from unstuck.evidence.loader import (
    COLLECTION,
    OWN,
    STARTING,
    VALIDATION,
    Call,
    Compiled,
    Fetching,
    Gap,
    Loader,
    Part,
    Pass,
    State,
)
from unstuck.evidence.process import Process
from unstuck.logs.training import Trend

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


def found(one: Process, waits: str | None = None, glances: tuple[Glance, ...] = ()) -> list[Finding]:
    """`waits`: what its main thread was met at, every half second of the run."""
    looks = [] if waits is None else [Sample(at / 2, processes=[Memory(7, waits=waits)]) for at in range(40)]
    evidence = Evidence(
        Run("run", status=0), recording=[one], host=[Host("node", cpus=2, samples=looks, glances=list(glances))]
    )
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


def lines_of_code(finding: Finding) -> list[str]:
    return [line for remedy in (finding.remedy, *finding.alternatives) for line in remedy.code]


def test_collecting_garbage_is_told_by_its_share_of_the_loops():
    (one,) = found(process(collecting=Timing(190, 8.0, 0.2)))

    assert one.rule == "gc-pauses"
    assert "every step" in one.cause
    assert any("nearly every batch" in text for text in one.seen)
    assert found(process(collecting=Timing(190, 1.5, 0.2))) == []
    assert found(process(collecting=Timing(2, 8.0, 6.0))) == []


def pauses(*numbers: int) -> Process:
    """Long ones after these batches."""
    gaps = [Gap(one / 10, 0.5, one, [Part(COLLECTION, "garbage collection", 0.4)]) for one in numbers]
    return process(Loader(number=1, gaps=[Gap(0.0, 0.6, 1), *gaps]), collecting=Timing(33, 8.0, 0.5))


@pytest.mark.parametrize("numbers", [(0, 6, 18, 24, 60, 72), (2, 8, 14, 26, 4, 10, 22)])
def test_collections_that_come_every_few_batches_are_asked_for_by_the_loop(numbers):
    (one,) = found(pauses(*numbers))

    assert "about every 6 steps" in one.cause
    assert any("about one in 6 batches" in text for text in one.seen)
    assert one.remedy.text.startswith("Remove gc.collect() from the loop")
    assert any("gc.freeze()" in line for line in lines_of_code(one))
    assert not any("gc.disable()" in line for line in lines_of_code(one))
    assert one.remedy.commands == []


@pytest.mark.parametrize("numbers", [(0, 6, 18, 24, 60, 73), (0, 6, 12, 18)])
def test_other_collections_may_be_pythons_own(numbers):
    (one,) = found(pauses(*numbers))

    assert any("gc.disable()" in line for line in lines_of_code(one))
    assert "the loop" not in one.remedy.text
    assert "again and again" in one.cause


def test_the_line_that_calls_gc_collect_is_named():
    asked = Call(COLLECTION, "gc.collect", Place("/train.py", 9, "on_end"), Timing(33, 7.9))
    paused = msgspec.structs.replace(pauses(0, 6, 12, 18, 24, 30), calls=[asked])

    (one,) = found(paused)

    assert one.where == asked.where
    assert "33 calls of gc.collect() at /train.py:9" in one.seen
    assert "train.py:9" in one.remedy.text


def test_the_line_of_a_collection_is_told_where_several_looks_met_it():
    asked = [Glance(at, 7, "in the loop's body", at, frames=[Frame("/train.py", 9, "on_end")]) for at in (0.1, 0.7)]
    paused = pauses(0, 6, 12, 18, 24, 30)

    assert found(paused, glances=(asked[0],))[0].where is None
    (one,) = found(paused, glances=tuple(asked))
    assert one.where == Place("/train.py", 9, "on_end")
    assert "(train.py:9)" in one.remedy.text


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
        ("0/1: tensor 'x' size mismatch at index 1. expected 8, actual 9", "torch._dynamo.mark_dynamic(x, 1)"),
        ("0/1: tensor 'L['ids']' size mismatch at index 2. expected 8, actual 9", "mark_dynamic(ids, 2)"),
        ("0/1: L['x'].size()[1] == 8", "mark_dynamic(x, 1)"),
        ("0/1: tensor 'x' rank mismatch. expected 2, actual 3", "the same from call to call"),
        ("0/1: self.steps == 4       # self.steps += 1", "Keep self.steps in a tensor"),
        ("0/1: L['self'].steps == 4", 'self.register_buffer("steps", torch.zeros((), dtype=torch.int64)'),
        ("0/1: self.rate == 0.5", 'self.register_buffer("rate", torch.zeros((), dtype=torch.float32)'),
        ("0/1: lr == 0.1", "lr = torch.tensor(lr)"),
        ("2/1: len(parts) == 3", "instead of a list"),
        ("0/1: GLOBAL_STATE changed: grad_mode", "what the guard checks"),
    ],
)
def test_the_remedy_is_that_of_the_guard_that_did_not_hold(reason, remedy):
    (one,) = found(process(compiled=compiled(4, 1.0, reason)))

    assert one.rule == "compile-recompiles"
    ways = [one.remedy, *one.alternatives]
    assert any(remedy in text for each in ways for text in (each.text, *each.code))
    assert ways[-1].commands == ["TORCH_LOGS=recompiles python train.py"]


@pytest.mark.parametrize(
    ("reason", "why"),
    [
        (
            "0/1: tensor 'x' size mismatch at index 1. expected 294, actual 22",
            "4 times because the size of x changes at dimension 1.",
        ),
        ("0/1: lr == 0.1", "because lr changes."),
        ("0/1: GLOBAL_STATE changed: grad_mode", "because a guard failed: GLOBAL_STATE changed: grad_mode."),
    ],
)
def test_a_guard_is_quoted_as_what_it_says(reason, why):
    (one,) = found(process(compiled=compiled(4, 1.0, reason)))

    assert why in one.cause
    assert any(reason.partition(": ")[2].rstrip(".") in text for text in one.seen)


def test_a_function_that_torch_gave_up_is_told_however_little_time_it_took():
    (one,) = found(process(compiled=compiled(1, 0.01, "0/7: lr == 0.1", limited=True)))

    assert "now runs eagerly" in one.cause


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
