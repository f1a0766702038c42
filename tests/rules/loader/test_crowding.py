"""Who is in whose way: rules about processors, on what the kernel counted."""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.analysis.processors import crowds
from unstuck.evidence import Evidence
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one


def evidence(rule: str) -> Evidence:
    return evidence_of(rule)


def verdict(rule: str, found: Evidence) -> str:
    return judge_one(all_rules()[rule], Case(found)).verdict


def with_cpus(found: Evidence, cpus: int) -> Evidence:
    return msgspec.structs.replace(found, host=[msgspec.structs.replace(one, cpus=cpus) for one in found.host])


def with_workers(found: Evidence, **counted: float) -> Evidence:
    """The same run, with other counters of its workers."""
    workers = {one.pid for one in found.recording if one.role == "worker"}

    def changed(sample):
        processes = [
            msgspec.structs.replace(one, **counted) if one.pid in workers and one.cpu is not None else one
            for one in sample.processes
        ]
        return msgspec.structs.replace(sample, processes=processes)

    hosts = [msgspec.structs.replace(host, samples=[changed(sample) for sample in host.samples]) for host in found.host]
    return msgspec.structs.replace(found, host=hosts)


@pytest.mark.parametrize("rule", ["too-many-workers", "cpu-oversubscription"])
def test_as_many_processors_as_there_are_to_run_make_it_fine(rule):
    assert verdict(rule, with_cpus(evidence(rule), 64)) == "clear"


@pytest.mark.parametrize("rule", ["too-many-workers", "cpu-oversubscription"])
def test_nobody_is_blamed_where_the_number_of_processors_is_not_known(rule):
    assert verdict(rule, with_cpus(evidence(rule), 0)) == "clear"


def test_workers_that_sleep_on_storage_are_in_nobodys_way():
    asleep = with_workers(evidence("too-many-workers"), cpu=0.05, main_cpu=0.05, queued=0.02)

    assert verdict("too-many-workers", asleep) == "clear"


def test_threads_that_sleep_do_not_count():
    """All the processor time is the main threads' own."""
    asleep = with_workers(evidence("cpu-oversubscription"), cpu=1.0, main_cpu=1.0)

    assert verdict("cpu-oversubscription", asleep) == "clear"


def test_threads_that_share_large_operations_lose_nothing():
    """They are sent off their processors no more often than anybody else."""
    calm = with_workers(evidence("cpu-oversubscription"), preempted=400)

    assert verdict("cpu-oversubscription", calm) == "clear"


def test_a_run_that_loads_fast_enough_has_nothing_to_gain():
    found = evidence("too-many-workers")

    def quick(process):
        loaders = [
            msgspec.structs.replace(one, waits=msgspec.structs.replace(one.waits, total=0.01))
            for one in process.loaders
        ]
        return msgspec.structs.replace(process, loaders=loaders)

    fast = msgspec.structs.replace(found, recording=[quick(one) for one in found.recording])

    assert verdict("too-many-workers", fast) == "clear"


def test_a_crowd_is_seen_at_the_moment_with_the_most_workers():
    (crowd,) = crowds(Case(evidence("too-many-workers")))

    assert len(crowd.workers) == 10
    assert crowd.queued > 0.5
