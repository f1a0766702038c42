"""More workers are advised only where CPU cores are free for them. On evidence that is made up."""

from __future__ import annotations

from collections.abc import Sequence

from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.finding import Finding
from unstuck.evidence.loader import Fetching, Loader
from unstuck.evidence.process import Process
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

STEPS, BEGAN, LOOP = 100, 4.0, 20.0
AT = Place("/project/train.py", 12, "main")


def training(pid: int, *, computing: float = 1.0, workers: int = 0, **more: object) -> Process:
    """Batches take 140 ms to load and 60 ms to train on."""
    loader = Loader(
        1, dataset="train.Rows", created=AT, began=BEGAN, first_at=BEGAN, now_since=BEGAN + LOOP, passes=4,
        waits=Timing(STEPS, 14.0), bodies=Timing(STEPS, 6.0), batches=STEPS + 1, optimizer_steps=STEPS,
        num_workers=workers, **more,
    )  # fmt: skip
    load = Fetching(1, fetches=Timing(STEPS, 14.0), cpu=Timing(13, computing * 1.82), cpu_of=Timing(13, 1.82))
    end = BEGAN + LOOP
    return Process("node", pid, 1, "main", opened=0.0, last_sign=end, ended=end, loaders=[loader], fetching=[load])


def found(
    trainings: list[Process], cpus: int, used: float, idle: float, queued: float = 0.0, workers: Sequence[Process] = ()
) -> list[Finding]:
    """Each training uses so many cores, and so many of all had nothing to do."""
    samples = [
        Sample(at, idle=idle * at, processes=[
            Memory(one.pid, threads=1, cpu=used * at, main_cpu=used * at, queued=queued * at) for one in trainings
        ])
        for at in (2.0, 12.0, 26.0)
    ]  # fmt: skip
    host = Host("node", cpus=cpus, granted=f"0-{cpus - 1}", samples=samples)
    evidence = Evidence(Run("x"), recording=[*trainings, *workers], host=[host])
    return judge_one(all_rules()["dataloader-bound"], Case(evidence)).findings


def test_two_trainings_that_fill_two_cores_are_told_of_the_cores_and_not_to_add_workers() -> None:
    findings = found([training(10), training(11)], cpus=2, used=0.97, idle=0.05)

    assert len(findings) == 2
    for one in findings:
        assert "there is no free CPU core to load with" in one.cause
        assert "2 training processes with their workers use 1.9 of 2 CPU cores" in one.seen
        assert one.remedy.text.startswith("Add no workers: 2 training processes")
        assert not any(
            "num_workers" in text for text in (one.cause, *(each.text for each in (one.remedy, *one.alternatives)))
        )


def test_one_training_beside_an_idle_core_is_told_to_add_a_worker() -> None:
    (one,) = found([training(10)], cpus=2, used=0.97, idle=1.0)

    assert "num_workers=0 loads every batch in the training process" in one.cause
    assert one.remedy.text.startswith("Set num_workers=1 (")


def test_idle_cores_are_divided_by_the_trainings_that_would_take_them() -> None:
    for one in found([training(10), training(11)], cpus=8, used=0.97, idle=2.2):
        assert one.remedy.text.startswith("Set num_workers=1 (")
    for one in found([training(10), training(11)], cpus=8, used=0.97, idle=6.0):
        assert one.remedy.text.startswith("Set num_workers=3 (")


def test_cores_that_other_programs_have_are_not_free() -> None:
    (one,) = found([training(10)], cpus=2, used=0.4, idle=0.0, queued=0.5)

    assert one.remedy.text.startswith("Add no workers: other programs use 1.6 of 2 CPU cores.")


def test_loading_that_waits_for_storage_needs_little_of_a_core() -> None:
    (one,) = found([training(10, computing=0.1)], cpus=2, used=0.4, idle=1.5)

    assert one.remedy.text.startswith("Set num_workers=4 (")


def test_loading_that_sleeps_gains_by_workers_though_other_programs_have_the_cores() -> None:
    (one,) = found([training(10, computing=0.05)], cpus=2, used=0.2, idle=0.0, queued=0.1)

    assert one.remedy.text.startswith("Set num_workers=4 (")
    assert "no free CPU core" not in one.cause


def test_workers_that_no_look_has_met_are_held_up_as_their_main_process_is() -> None:
    # given workers that live for a second, and compute 30 % of the time that loading takes
    main = training(10, workers=2, pids=[20, 21])
    load = Fetching(0, fetches=Timing(50, 20.0), cpu=Timing(7, 0.84), cpu_of=Timing(7, 2.8))
    workers = [Process("node", pid, 10, "worker", fetching=[load]) for pid in (20, 21)]
    (one,) = found([main], cpus=2, used=0.3, idle=0.0, queued=0.7, workers=workers)

    assert one.remedy.text.startswith("Add no workers: other programs use 1.7 of 2 CPU cores.")


def test_workers_that_are_spawned_with_every_epoch_have_to_stay() -> None:
    (one,) = found([training(10, context="spawn")], cpus=8, used=0.97, idle=7.0)
    assert one.remedy.text.startswith("Set num_workers=4, persistent_workers=True (")
    (one,) = found([training(10, context="fork")], cpus=8, used=0.97, idle=7.0)
    assert one.remedy.text.startswith("Set num_workers=4 (")


def test_time_without_a_core_is_told_apart_from_other_waiting() -> None:
    (one,) = found([training(10, computing=0.2)], cpus=2, used=0.5, idle=0.0, queued=0.75)
    assert "20 % of that is CPU time, 30 % waiting for a CPU core, 50 % other waiting" in one.seen
    (one,) = found([training(10, computing=0.2)], cpus=2, used=0.5, idle=1.4)
    assert "20 % of that is CPU time, the rest is waiting" in one.seen
