"""One answer for a run: is data the limit? On numbers that are made up."""

from __future__ import annotations

from typing import Any

import msgspec

from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.evidence.basics import Timing
from unstuck.evidence.live import Gpu
from unstuck.evidence.loader import Fetching, Gap, Loader, Part
from unstuck.evidence.process import Process
from unstuck.report import Bottleneck
from unstuck.reporting.bottleneck import bottleneck
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

STEPS = 100
LOOP = 100.0  # seconds


def run(waited: float, *, gpu: float | None = None, workers: int = 4, worked: float = 0, **more: Any) -> Evidence:
    waits, bodies = Timing(count=STEPS, total=waited), Timing(count=STEPS, total=LOOP - waited)
    loader = Loader(
        number=1, num_workers=workers, batches=STEPS, waits=waits, bodies=bodies, pids=[11],
        **{"first_at": 5.0, "optimizer_steps": STEPS, **more},
    )  # fmt: skip
    main = Process(node="a", pid=10, parent=1, role="main", opened=1.0, last_sign=120.0, loaders=[loader])
    spent = Fetching(loader=0, fetches=Timing(STEPS, worked), idle=Timing(STEPS, workers * LOOP - worked))
    worker = Process(node="a", pid=11, parent=10, role="worker", worker=0, fetching=[spent])
    gpus = [] if gpu is None else [Gpu(0, busy=gpu, processes={10: 1 << 30})]
    samples = [Sample(at, pressure=0.2, processes=[Memory(10, cpu=at * 1.5)], gpus=gpus) for at in (2.0, 50.0, 110.0)]
    return Evidence(Run("x"), recording=[main, worker], host=[Host("a", cpus=8, samples=samples)])


def judged(waited: float, **more: Any) -> Bottleneck:
    found = bottleneck(Case(run(waited, **more)))
    assert found is not None
    return found


def test_a_loop_that_waits_for_batches_is_limited_by_data():
    found = judged(60.0)

    assert found.answer == "data"
    assert "60 % of the loop waits for data" in found.text
    assert found.seen == ["1.5 of 8 CPU cores in use", "a process waited for a disk 20 % of the time"]


def test_a_loop_that_hardly_waits_is_limited_by_its_own_work_and_may_give_workers_back():
    found = judged(0.5, workers=8, worked=90.0)

    assert (found.answer, found.spare_workers) == ("compute", 5)
    assert "5 of 8 workers could be dropped" in found.text


def test_workers_that_are_all_needed_are_kept():
    assert judged(0.5, workers=4, worked=380.0).spare_workers == 0


def test_a_busy_gpu_overrules_what_the_main_thread_waits_for():
    found = judged(50.0, gpu=0.95)

    assert (found.answer, found.gpu) == ("compute", 0.95)


def test_an_idle_gpu_makes_a_smaller_wait_count():
    assert judged(20.0, gpu=0.5).answer == "data"
    assert judged(20.0).answer == "balanced"


def test_side_work_between_steps_is_named():
    parts = [Part("logger", "wandb.log", 40.0, 100), Part("validation", "", 20.0)]

    found = judged(1.0, between=parts, between_of=Timing(STEPS, 99.0))

    assert found.answer == "between steps"
    assert "40 % of the time, most of it logger (wandb.log)" in found.text


def test_validation_between_steps_is_no_loss():
    assert judged(1.0, between=[Part("validation", "", 60.0)], between_of=Timing(STEPS, 99.0)).answer == "compute"


def waits_in_gap(**more: Any) -> Bottleneck:
    """Ten times a step of six seconds in which the main thread waits for a child."""
    gaps = [Gap(10.0 * number, 6.0, number) for number in range(10)]
    evidence = run(1.0, between_of=Timing(STEPS, 99.0, 6.0, p50=0.4), gaps=gaps, **more)
    samples = [Sample(at / 2, processes=[Memory(10, waits="wait4" if at / 2 % 10 < 6 else "")]) for at in range(200)]
    found = bottleneck(Case(msgspec.structs.replace(evidence, host=[Host("a", cpus=8, samples=samples)])))
    assert found is not None
    return found


def test_own_code_that_waits_inside_the_loop_is_no_computing():
    found = waits_in_gap()

    assert found.answer == "between steps"
    assert "60 % of the time, most of it own code (waiting for a process)" in found.text


def test_what_lies_between_two_passes_counts():
    upload = Gap(100.0, 80.0, 1, [Part("http", "POST host", 70.0), Part("validation", "", 10.0)])

    found = judged(1.0, boundaries=[upload])

    assert found.answer == "between steps"
    assert "39 % of the time, most of it http (POST host)" in found.text


def test_a_logger_in_the_loop_counts_more_than_a_long_start():
    parts = [Part("logger", "wandb.log", 40.0, 100)]

    assert judged(1.0, first_at=90.0, between=parts, between_of=Timing(STEPS, 99.0)).answer == "between steps"


def test_a_loop_without_an_optimizer_that_is_known_is_judged_all_the_same():
    assert judged(60.0, optimizer_steps=0).answer == "data"


def test_a_run_that_mostly_starts_says_so():
    assert judged(1.0, first_at=90.0).answer == "start-up"


def test_too_short_a_loop_is_not_judged():
    loader = Loader(number=1, batches=4, optimizer_steps=4, waits=Timing(3, 1.0), bodies=Timing(4, 1.0), first_at=1.5)
    main = Process(node="a", pid=10, parent=1, role="main", opened=1.0, last_sign=4.0, loaders=[loader])

    found = bottleneck(Case(Evidence(Run("x"), recording=[main])))

    assert found is not None
    assert found.answer == "unknown"


def test_a_loop_that_waits_beside_a_busy_gpu_is_not_called_slow():
    def found(gpu: float | None) -> list[str]:
        evidence = run(60.0, gpu=gpu)
        return [one.rule for one in judge_one(all_rules()["dataloader-bound"], Case(evidence)).findings]

    assert found(None) == ["dataloader-bound"]
    assert found(0.4) == ["dataloader-bound"]
    assert found(0.95) == []
