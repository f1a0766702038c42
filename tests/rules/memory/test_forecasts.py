"""What climbs is set against what is left, and memory is kept apart by kind."""

from __future__ import annotations

import msgspec
import pytest

from capture import words
from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Host, Memory, Sample
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

MIB = 1 << 20


def evidence(rule: str) -> Evidence:
    return evidence_of(rule)


def said(rule: str, found: Evidence) -> str:
    return " ".join(words(rule, found).split())


def sampled(found: Evidence, change) -> Evidence:
    """The same run, with every sample changed."""
    hosts = [msgspec.structs.replace(host, samples=[change(sample) for sample in host.samples]) for host in found.host]
    return msgspec.structs.replace(found, host=hosts)


def limited(found: Evidence, left: int) -> Evidence:
    """The same run in a memory cgroup with so many bytes left, looked at while it went on."""
    going_on = msgspec.structs.replace(found, exits=[], run=msgspec.structs.replace(found.run, status=None))
    return sampled(
        going_on, lambda sample: msgspec.structs.replace(sample, limit=2048 * MIB, used=2048 * MIB - left, cached=0)
    )


@pytest.mark.parametrize("rule", ["cow-refcount-growth", "graph-accumulation"])
def test_memory_that_climbs_towards_a_limit_is_told_with_the_step_at_which_it_gets_there(rule):
    assert "the limit of 2.0 GiB is reached at about step" in said(rule, limited(evidence(rule), 50 * MIB))


def test_the_closer_the_limit_the_earlier_the_step():
    def step(left: int) -> int:
        text = said("graph-accumulation", limited(evidence("graph-accumulation"), left))
        return int(text.partition("reached at about step ")[2].partition(":")[0].replace(",", ""))

    assert step(100 * MIB) < step(1000 * MIB)


def test_copies_that_end_before_the_limit_are_not_said_to_reach_it():
    text = said("cow-refcount-growth", limited(evidence("cow-refcount-growth"), 2000 * MIB))

    assert "more are to come" in text
    assert "is reached" not in text


@pytest.mark.parametrize("rule", ["cow-refcount-growth", "graph-accumulation"])
def test_nothing_is_foretold_of_a_run_that_ended_well(rule):
    found = limited(evidence(rule), 50 * MIB)
    well = msgspec.structs.replace(found, exits=evidence(rule).exits)

    assert "is reached" not in said(rule, well)
    assert "to come" not in said(rule, well)


def test_nothing_is_foretold_of_copies_that_have_levelled_off():
    found = limited(evidence("cow-refcount-growth"), 50 * MIB)
    (host,) = found.host
    top = [one for one in host.samples if sum(held.own is not None for held in one.processes) > 1][-1]
    later = [msgspec.structs.replace(top, at=host.samples[-1].at + 10 * more) for more in range(1, 4)]
    level = msgspec.structs.replace(found, host=[msgspec.structs.replace(host, samples=[*host.samples, *later])])

    assert "it has levelled off" in said("cow-refcount-growth", level)
    assert "is reached" not in said("cow-refcount-growth", level)


def test_a_worker_that_allocates_what_it_holds_is_not_copying():
    def grows(sample: Sample) -> Sample:
        own = [msgspec.structs.replace(one, anonymous=one.own) for one in sample.processes if one.own is not None]
        return msgspec.structs.replace(sample, processes=own)

    found = sampled(evidence("cow-refcount-growth"), grows)

    assert judge_one(all_rules()["cow-refcount-growth"], Case(found)).verdict == "clear"


def test_memory_of_its_own_that_comes_at_once_is_the_main_process_writing():
    def jumps(sample: Sample) -> Sample:
        own = [msgspec.structs.replace(one, own=500 * MIB if one.own else None) for one in sample.processes]
        return msgspec.structs.replace(sample, processes=own)

    found = sampled(evidence("cow-refcount-growth"), jumps)

    assert judge_one(all_rules()["cow-refcount-growth"], Case(found)).verdict == "clear"


@pytest.mark.parametrize(
    ("memory", "words", "certainty"),
    [
        (4 << 30, "would be OOM-killed: it needs", "likely"),
        (14 << 30, "would be OOM-killed once batches queue up", "possible"),
    ],
)
def test_a_loader_that_fits_while_its_loop_waits_for_data_is_not_said_to_be_killed_in_any_case(
    memory, words, certainty
):
    found = evidence("memory-budget-exceeded")
    budget = msgspec.structs.replace(found.trial.budget, memory=memory)
    found = msgspec.structs.replace(found, trial=msgspec.structs.replace(found.trial, budget=budget))

    (finding,) = judge_one(all_rules()["memory-budget-exceeded"], Case(found)).findings

    assert words in finding.cause
    assert finding.certainty == certainty


def test_results_that_are_kept_for_a_while_are_not_an_accumulation():
    found = evidence("graph-accumulation")
    processes = [
        msgspec.structs.replace(one, graphs=[msgspec.structs.replace(graph, nodes=500) for graph in one.graphs])
        for one in found.recording
    ]

    kept = msgspec.structs.replace(found, recording=processes)

    assert judge_one(all_rules()["graph-accumulation"], Case(kept)).verdict == "clear"


def test_a_first_pass_from_the_disk_is_a_cold_cache_and_nothing_else():
    """Counters that stand still after the first pass."""
    found = evidence("page-cache-thrash")

    def cached(one: Memory) -> Memory:
        return msgspec.structs.replace(one, from_disk=0 if one.from_disk is not None else None)

    warm = sampled(
        found, lambda sample: msgspec.structs.replace(sample, processes=[cached(one) for one in sample.processes])
    )

    assert judge_one(all_rules()["page-cache-thrash"], Case(warm)).verdict == "clear"


def test_a_cache_that_could_still_grow_is_not_thrashing():
    found = sampled(
        evidence("page-cache-thrash"), lambda sample: msgspec.structs.replace(sample, limit=64 * (sample.limit or 1))
    )

    assert isinstance(found.host[0], Host)
    assert judge_one(all_rules()["page-cache-thrash"], Case(found)).verdict == "clear"
