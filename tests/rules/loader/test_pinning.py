"""Who may run where: the rules about processors that are there and cannot be used."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.evidence import Evidence
from unstuck.probes import cgroups, machine
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one
from unstuck.wording.text import in_words, numbers

PINNED, ALONE = "cpu-affinity-collapsed", "omp1-by-torchrun"
replace = msgspec.structs.replace


def evidence(rule: str) -> Evidence:
    return evidence_of(rule)


def verdict(rule: str, found: Evidence) -> str:
    return judge_one(all_rules()[rule], Case(found)).verdict


def with_host(found: Evidence, **changed: object) -> Evidence:
    return replace(found, host=[replace(one, **changed) for one in found.host])


def with_workers(found: Evidence, change) -> Evidence:
    """The same run, with each look at a worker changed; `change` is given the worker's number."""
    workers = {one.pid: one.worker for one in found.recording if one.role == "worker"}

    def look(one):
        return replace(one, **change(workers[one.pid])) if one.pid in workers and one.cpu is not None else one

    hosts = [
        replace(each, samples=[replace(one, processes=[look(p) for p in one.processes]) for one in each.samples])
        for each in found.host
    ]
    return replace(found, host=hosts)


def with_mains(found: Evidence, **changed: object) -> Evidence:
    return replace(found, recording=[replace(one, **changed) if one.role == "main" else one for one in found.recording])


def with_threads(found: Evidence, **changed: object) -> Evidence:
    recording = [
        replace(one, threads=replace(one.threads, **changed)) if one.threads is not None else one
        for one in found.recording
    ]
    return replace(found, recording=recording)


@pytest.mark.parametrize("text", ["", "0", "0-3", "0-3,8", "1,3,5-7"])
def test_lists_of_processors_are_read_and_written(text):
    assert in_words(numbers(text)) == text


def test_a_process_that_is_pinned_shows_it_and_another_does_not(tmp_path):
    could = cgroups.granted(os.getpid())
    if len(could) < 2:
        pytest.skip("one processor is all there is")
    code = f"import os, time; os.sched_setaffinity(0, {{{min(could)}}}); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            seen = machine.with_processors(machine.sample(os.getpid(), [child.pid, os.getpid()], tmp_path, 0.0), could)
        finally:
            child.kill()

    assert [one.pinned for one in seen.processes] == [str(min(could)), ""]


def test_idle_processors_count_seconds():
    could = cgroups.granted(os.getpid())
    first, begun = cgroups.idle(could), time.monotonic()
    time.sleep(0.2)

    assert 0 <= cgroups.idle(could) - first <= len(could) * (time.monotonic() - begun) + 0.1


def test_a_worker_on_each_processor_is_fine():
    assert verdict(PINNED, with_workers(evidence(PINNED), lambda worker: {"pinned": str(worker)})) == "clear"


def test_a_cpuset_of_one_processor_is_all_there_is():
    assert verdict(PINNED, with_host(evidence(PINNED), granted="0")) == "clear"


def test_a_quota_of_one_processor_is_all_there_is():
    assert verdict(PINNED, with_host(evidence(PINNED), quota=1.0)) == "clear"


def test_a_run_of_an_older_version_says_nothing():
    assert verdict(PINNED, with_host(evidence(PINNED), granted="")) == "clear"


def test_pinned_workers_that_wait_for_storage_lose_nothing():
    asleep = with_workers(evidence(PINNED), lambda _: {"cpu": 0.1, "main_cpu": 0.1, "queued": 0.05})

    assert verdict(PINNED, asleep) == "clear"


def test_workers_that_somebody_else_keeps_off_the_processor_are_not_blamed_on_the_pinning():
    crowded = with_workers(evidence(PINNED), lambda _: {"cpu": 0.3, "main_cpu": 0.3, "queued": 4.0})

    assert verdict(PINNED, crowded) == "clear"


def idling(found: Evidence, share: float) -> Evidence:
    hosts = [replace(one, samples=[replace(s, idle=100 + share * s.at) for s in one.samples]) for one in found.host]
    return replace(found, host=hosts)


def test_a_training_that_was_started_with_one_processor_may_have_been_meant_to():
    """While others use the rest; if that is idle, nobody gains by it."""
    started = with_mains(evidence(PINNED), processors=1)

    assert verdict(PINNED, idling(started, 0.1)) == "clear"
    assert verdict(PINNED, idling(started, 0.9)) == "found"


def test_ranks_that_are_bound_to_parts_of_a_machine_leave_nothing_idle():
    """Other ranks of this node have the rest of the processors: it is their number that is too small."""
    found = evidence(PINNED)
    (main,) = [one for one in found.recording if one.role == "main"]
    other = replace(main, pid=main.pid + 100_000, rank=1, loaders=[])
    hosts = [
        replace(
            one,
            samples=[
                replace(s, processes=[*s.processes, replace(s.processes[0], pid=other.pid, cpu=s.at, main_cpu=s.at)])
                if s.processes and s.processes[0].cpu is not None
                else s
                for s in one.samples
            ],
        )
        for one in found.host
    ]

    assert verdict(PINNED, replace(found, recording=[*found.recording, other], host=hosts)) == "clear"


def test_a_job_of_slurm_is_told_how_to_ask_for_more():
    started = idling(with_mains(evidence(PINNED), processors=1), 0.9)
    job = with_threads(started, variables={"SLURM_JOB_ID": "4711", "SLURM_CPUS_PER_TASK": "1"})

    finding = judge_one(all_rules()[PINNED], Case(job)).findings[0]

    assert "are pinned to core 0 of 2 (by Slurm)" in finding.cause
    assert finding.remedy.code == ["#SBATCH --cpus-per-task=2"]
    assert finding.remedy.commands[0].startswith("srun --cpus-per-task=2 ")


def test_who_pinned_it_is_told_by_when_it_was():
    started = idling(with_mains(evidence(PINNED), processors=1), 0.9)
    by_taskset = replace(started, run=replace(started.run, command=["taskset", "-c", "0", "python", "train.py"]))
    in_worker = replace(
        evidence(PINNED),
        recording=[replace(one, processors=2) for one in evidence(PINNED).recording],
    )

    def cause(found):
        return judge_one(all_rules()[PINNED], Case(found)).findings[0].cause

    assert "pinned to core 0 of 2 (OMP_PROC_BIND=close)" in cause(evidence(PINNED))
    assert "pinned to core 0 of 2 (by taskset)" in cause(by_taskset)
    assert "pinned to core 0 of 2 (after start)" in cause(in_worker)


@pytest.mark.parametrize(
    "changed",
    [
        {"by_launcher": []},  # the user's own
        {"threads": 2},  # torch.set_num_threads was called
        {"shared": []},  # nothing was looked at
    ],
)
def test_one_thread_is_not_blamed_without_all_its_signs(changed):
    assert verdict(ALONE, with_threads(evidence(ALONE), **changed)) == "clear"


def test_preprocessing_in_plain_python_gains_nothing_by_threads():
    found = evidence(ALONE)
    (main,) = [one for one in found.recording if one.threads is not None]
    plain = [replace(one, shared=0.1 * one.seconds) for one in main.threads.shared]

    assert verdict(ALONE, with_threads(found, shared=plain)) == "clear"


def test_ranks_that_keep_all_processors_busy_are_right_to_have_one_thread_each():
    assert verdict(ALONE, with_host(evidence(ALONE), cpus=1)) == "clear"


def test_more_processors_mean_more_threads_for_each_rank():
    finding = judge_one(all_rules()[ALONE], Case(with_host(evidence(ALONE), cpus=64))).findings[0]

    assert finding.remedy.commands[0].startswith("OMP_NUM_THREADS=64 ")
