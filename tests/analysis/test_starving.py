"""Other programs have the CPU cores: queueing is not slow loading, and what is slow by itself is found."""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.analysis.cpu_contention import fair_waiting, others, spent
from unstuck.evidence import Evidence, Host, Memory, Run, Sample
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.loader import Fetching, Loader
from unstuck.evidence.process import Process
from unstuck.reporting.bottleneck import bottleneck
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

MAIN, CORES, BEGAN, EVERY = 10, 2, 4.0, 2.0
AT = Place("/project/train.py", 12, "main")


def main_process(loader: Loader, end: float, **more) -> Process:
    return Process("node", MAIN, 1, "main", opened=0.0, last_sign=end, ended=end, loaders=[loader],
                   optimizer_steps=loader.optimizer_steps, **more)  # fmt: skip


def looped(waited: float, bodies: float, steps: int = 100, **more) -> Loader:
    return Loader(1, "DataLoader", "train.Rows", AT, began=BEGAN, first_at=BEGAN, now_since=BEGAN + waited + bodies,
                  waits=Timing(steps, waited, waited / steps), bodies=Timing(steps, bodies, bodies / steps),
                  batches=steps + 1, optimizer_steps=steps, passes=1, starts=Timing(1, 0.1, 0.1),
                  first_waits=Timing(1, 0.1, 0.1), **more)  # fmt: skip


def worker(pid: int, end: float, idle: float = 0.0, fetched: float = 0.0, cpu: float = 0.0, **more) -> Process:
    load = Fetching(0, fetches=Timing(50, fetched, fetched / 50), cpu=Timing(50, cpu, cpu / 50), idle=Timing(50, idle))
    more = {"opened": BEGAN, "started": BEGAN, **more}
    return Process("node", pid, MAIN, "worker", ended=end, last_sign=end, threads_at_fork=1, fetching=[load], **more)


def host(end: float, rates: dict[int, tuple[float, float]], idle: float = 0.0, **more) -> Host:
    """Looked at every two seconds: what each process ran and was queued, and cores that had nothing to do."""
    samples, at = [], 0.0
    while at <= end + EVERY:
        since = {pid: max(at - (0.0 if pid == MAIN else BEGAN), 0.0) for pid in rates}
        seen = [
            Memory(pid, threads=1, cpu=ran * since[pid], main_cpu=ran * since[pid], queued=queued * since[pid])
            for pid, (ran, queued) in rates.items()
            if pid == MAIN or at > BEGAN
        ]
        samples.append(Sample(at, idle=1000 + idle * at, processes=seen))
        at += EVERY
    return Host("node", cpus=CORES, granted="0-1", samples=samples, **more)


def evidence(main: Process, *workers: Process, seen: Host) -> Evidence:
    return Evidence(run=Run("run"), recording=[main, *workers], exits=[], host=[seen])


def in_main(waited: float, computed: float, rate: tuple[float, float], idle: float = 0.0, **more) -> Evidence:
    """A loop of ten seconds that loads its batches itself; of these, fetching computed so much."""
    loader = looped(waited, 10.0 - waited)
    load = Fetching(1, fetches=Timing(100, waited, waited / 100), cpu=Timing(100, computed, computed / 100))
    main = main_process(loader, BEGAN + 10.0, fetching=[load])
    return evidence(main, seen=host(BEGAN + 10.0, {MAIN: rate}, idle, **more))


def with_workers(waited: float, rate: tuple[float, float], of_worker: tuple[float, float], resting: float) -> Evidence:
    """The same with two workers, which rest for a part of the time."""
    end = BEGAN + 10.0
    main = main_process(looped(waited, 10.0 - waited, num_workers=2, pids=[20, 21]), end)
    works = [worker(pid, end, 10 * resting, 10 * (1 - resting), 10 * of_worker[0]) for pid in (20, 21)]
    return evidence(main, *works, seen=host(end, {MAIN: rate, 20: of_worker, 21: of_worker}))


def verdict(rule: str, found: Evidence) -> str:
    return judge_one(all_rules()[rule], Case(found)).verdict


def test_the_time_of_a_main_thread_is_running_queueing_and_being_blocked():
    found = in_main(4.0, 0.3, (0.2, 0.7))

    took = spent(Case(found), found.recording[0], BEGAN, BEGAN + 10.0)

    assert (took.ran, took.queued, took.blocked) == pytest.approx((2.0, 7.0, 1.0))
    assert others(Case(found), found.recording[0], BEGAN, BEGAN + 10.0) == pytest.approx(0.9)


def test_a_loop_that_only_has_no_core_does_not_wait_for_data():
    """Of four seconds of fetching, a third of one was computing; nothing was ever blocked."""
    assert verdict("dataloader-bound", in_main(4.0, 0.3, (0.3, 0.7))) == "clear"


def test_what_the_loop_itself_computed_is_never_taken_for_queueing():
    """Its main thread was hardly ever on a core: what it ran went into the steps, not into fetching."""
    found = in_main(1.5, 0.05, (0.1, 1.0))

    assert fair_waiting(Case(found), found.recording[0], found.recording[0].loaders[0]).share < 0.1


def test_the_same_loop_on_a_machine_of_its_own_waits_for_data():
    assert verdict("dataloader-bound", in_main(4.0, 0.3, (0.3, 0.0), idle=1.7)) == "found"


def test_storage_that_blocks_is_found_beside_other_programs():
    found = in_main(8.0, 0.3, (0.1, 0.2))

    (finding,) = judge_one(all_rules()["dataloader-bound"], Case(found)).findings

    assert any("other programs had 95 % of the CPU cores: 2 s" in line for line in finding.seen)


def test_a_transform_that_computes_is_found_beside_other_programs():
    assert verdict("dataloader-bound", in_main(8.0, 2.7, (0.3, 0.7))) == "found"


def test_a_run_that_has_most_of_the_cores_itself_is_in_its_own_way():
    found = in_main(4.0, 0.3, (0.3, 0.7))
    crowd = {MAIN: (0.3, 0.7), **dict.fromkeys(range(50, 55), (0.3, 0.6))}
    crowded = msgspec.structs.replace(found, host=[host(BEGAN + 10.0, crowd)])

    assert others(Case(crowded), crowded.recording[0], BEGAN, BEGAN + 10.0) == 0
    assert verdict("dataloader-bound", crowded) == "found"


def test_a_run_at_its_quota_is_in_nobodys_way():
    """Whatever other programs do on the other cores: it had what it may use."""
    found = in_main(4.0, 0.3, (0.3, 0.7), quota=0.35)

    assert others(Case(found), found.recording[0], BEGAN, BEGAN + 10.0) == 0


def test_who_had_the_cores_that_a_process_is_pinned_to_is_not_known():
    found = in_main(4.0, 0.3, (0.3, 0.7))
    (seen,) = found.host
    pinned = [
        msgspec.structs.replace(one, processes=[msgspec.structs.replace(each, pinned="0") for each in one.processes])
        for one in seen.samples
    ]

    found = msgspec.structs.replace(found, host=[msgspec.structs.replace(seen, samples=pinned)])

    assert verdict("dataloader-bound", found) == "found"


def test_nothing_is_taken_off_where_idle_cores_were_not_counted():
    found = in_main(4.0, 0.3, (0.3, 0.7))
    (seen,) = found.host
    blind = [msgspec.structs.replace(one, idle=None) for one in seen.samples]

    found = msgspec.structs.replace(found, host=[msgspec.structs.replace(seen, samples=blind)])

    assert verdict("dataloader-bound", found) == "found"


def test_workers_that_no_look_has_met_are_the_runs_own():
    """They came and went between two looks, eight at a time."""
    found = in_main(4.0, 0.3, (0.1, 0.7))
    short = [worker(100 + number, BEGAN + 10.0, opened=BEGAN, started=BEGAN) for number in range(8)]

    found = msgspec.structs.replace(found, recording=[*found.recording, *short])

    assert others(Case(found), found.recording[0], BEGAN, BEGAN + 10.0) == 0


def test_workers_that_have_no_core_are_not_slow():
    assert verdict("dataloader-bound", with_workers(5.0, (0.1, 0.3), (0.05, 0.5), resting=0.4)) == "clear"


def test_workers_that_wait_for_storage_are_found_beside_other_programs():
    assert verdict("dataloader-bound", with_workers(8.0, (0.05, 0.2), (0.05, 0.1), resting=0.0)) == "found"


def test_workers_that_compute_are_found_beside_other_programs():
    """Half of what they want they get; the loop's own work is a tenth of that."""
    assert verdict("dataloader-bound", with_workers(8.5, (0.05, 0.1), (0.45, 0.5), resting=0.0)) == "found"


def test_a_loop_keeps_its_length_by_the_clock():
    found = in_main(8.0, 2.7, (0.3, 0.7))
    main = found.recording[0]

    loop = fair_waiting(Case(found), main, main.loaders[0])

    assert loop.lasted == pytest.approx(10.0)
    assert loop.looped == pytest.approx(3.0)


def respawned(firsts: float, queued: float, blocked: float, *, met: bool = True) -> Evidence:
    """Eight passes of two seconds, each with two new workers that are slow to give their first batch."""
    end, passes = BEGAN + 16.0, 8
    loader = Loader(1, "DataLoader", "train.Rows", AT, num_workers=2, began=BEGAN, first_at=BEGAN, now_since=end,
                    passes=passes, batches=80, optimizer_steps=80, starts=Timing(passes, 0.4, 0.05),
                    first_waits=Timing(passes, passes * firsts, firsts), waits=Timing(72, 0.1, 0.01),
                    bodies=Timing(80, 8.0, 0.2), pids=list(range(20, 20 + 2 * passes)))  # fmt: skip
    works, samples = [], []
    for number in range(passes):
        born = BEGAN + 2.0 * number
        pids = 20 + 2 * number, 21 + 2 * number
        works += [worker(pid, born + 1.9, 1.85 - queued - blocked, 0.05, 0.02, opened=born, started=born)
                  for pid in pids]  # fmt: skip
        seen = [Memory(pid, threads=1, cpu=0.05, main_cpu=0.05, queued=queued) for pid in pids] if met else []
        at = born + 1.8
        mine = Memory(MAIN, threads=1, cpu=0.2 * at, main_cpu=0.2 * at, queued=0.5 * at)
        samples.append(Sample(at, idle=1000.0, processes=[mine, *seen]))
    seen = Host("node", cpus=CORES, granted="0-1", samples=samples)
    return evidence(main_process(loader, end), *works, seen=seen)


def test_workers_that_start_late_because_they_have_no_core_lose_nothing_by_starting_again():
    assert verdict("worker-respawn-epoch-gap", respawned(0.9, queued=0.8, blocked=0.0)) == "clear"


def test_workers_that_were_not_met_are_taken_to_be_held_up_as_their_main_process_is():
    assert verdict("worker-respawn-epoch-gap", respawned(0.9, 0.0, 0.0, met=False)) == "clear"


def test_workers_that_prepare_something_at_every_start_are_found_beside_other_programs():
    assert verdict("worker-respawn-epoch-gap", respawned(1.2, queued=0.2, blocked=1.0)) == "found"


def few(rate: tuple[float, float]) -> Evidence:
    """Eight batches, each waited for a second."""
    end = BEGAN + 8.0
    loader = msgspec.structs.replace(
        looped(7.0, 0.1, steps=7), first=[1.0], first_waits=Timing(1, 1.0, 1.0), first_at=BEGAN + 1.0, now_since=end
    )
    load = Fetching(1, fetches=Timing(8, 8.0, 1.0), cpu=Timing(8, 0.4, 0.05))
    return evidence(main_process(loader, end, fetching=[load]), seen=host(end, {MAIN: rate}))


def test_batches_that_have_no_core_are_not_always_slow():
    assert verdict("loader-always-slow", few((0.1, 0.85))) == "clear"


def test_batches_that_are_blocked_are_always_slow():
    assert verdict("loader-always-slow", few((0.05, 0.1))) == "found"


def first(rate: tuple[float, float]) -> Evidence:
    """The first batch of a stream takes sixteen seconds, the others next to nothing."""
    end = BEGAN + 17.0
    loader = msgspec.structs.replace(
        looped(0.2, 0.5, steps=20), iterable=True, first=[16.0], first_waits=Timing(1, 16.0, 16.0),
        first_at=BEGAN + 16.0, now_since=end,
    )  # fmt: skip
    load = Fetching(1, fetches=Timing(21, 16.2, 16.0), cpu=Timing(21, 0.4, 0.2))
    return evidence(main_process(loader, end, fetching=[load]), seen=host(end, {MAIN: rate}))


def test_a_first_batch_that_has_no_core_is_not_slow():
    assert verdict("first-batch-slow", first((0.2, 0.75))) == "clear"


def test_a_first_batch_that_is_blocked_is_slow():
    assert verdict("first-batch-slow", first((0.1, 0.1))) == "found"


def started(rate: tuple[float, float]) -> Evidence:
    """Two workers whose worker_init_fn takes nine seconds, in a run of twenty."""
    end = BEGAN + 20.0
    loader = msgspec.structs.replace(
        looped(0.2, 10.0, num_workers=2, pids=[20, 21], context="fork"),
        starts=Timing(1, 0.1, 0.1), first=[9.2], first_waits=Timing(1, 9.2, 9.2), first_at=BEGAN + 9.3, now_since=end,
    )  # fmt: skip
    init = {"worker_init_fn": Timing(1, 9.0, 9.0)}
    works = [worker(pid, end, 10.0, 0.2, 0.1, stages=init) for pid in (20, 21)]
    return evidence(main_process(loader, end), *works, seen=host(end, {MAIN: (0.3, 0.3), 20: rate, 21: rate}))


def test_workers_that_have_no_core_to_start_on_are_not_slow_to_start():
    assert verdict("worker-start-slow", started((0.1, 0.85))) == "clear"


def test_workers_that_wait_while_they_start_are_slow_to_start():
    assert verdict("worker-start-slow", started((0.05, 0.1))) == "found"


@pytest.mark.parametrize("rule", ["too-many-workers", "cpu-oversubscription", "dataloader-bound"])
def test_what_a_run_does_to_itself_is_still_found(rule):
    found = evidence_of(rule)

    assert verdict(rule, found) == "found"


def test_a_loop_that_hardly_ever_had_a_core_is_not_judged_by_what_is_left():
    """97 % of its time it was queued: 2 % of waiting in the remaining 3 % are no share of anything."""
    found = in_main(waited=0.8, computed=0.1, rate=(0.02, 0.97))
    main = found.recording[0]

    loop = fair_waiting(Case(found), main, main.loaders[0])

    assert (loop.steps, loop.share) == (0, 0.0)
    assert loop.taken == pytest.approx(10.0)
    assert bottleneck(Case(found)).answer == "unknown"
    assert {rule for rule, one in all_rules().items() if judge_one(one, Case(found)).verdict == "found"} == set()
