"""Rules about accelerate and about waiting for the first rank: what turns each verdict, one fact at a time."""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of
from unstuck.analysis.case import Case
from unstuck.evidence.distributed import Span
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

UNEVEN, NONE = "accelerate-uneven-batch-sampler", "accelerate-batch-sampler-none"
DISPATCHER, TIMEOUT = "accelerate-rank0-dispatcher", "main-process-first-timeout"
change = msgspec.structs.replace


def evidence(rule):
    return evidence_of(rule)


def findings(rule, known):
    judgement = judge_one(all_rules()[rule], Case(known))
    assert judgement.verdict in ("found", "clear"), judgement.error
    return judgement.findings


def with_ranks(known, make):
    """`make(process)` for every rank."""
    ranks = [one.pid for one in Case(known).ranks]
    return change(known, recording=[make(one) if one.pid in ranks else one for one in known.recording])


def going_on(known):
    """The same run, a moment before anybody waits."""
    alive = with_ranks(known, lambda one: change(one, alive=True, failures=[], ended=None))
    return change(alive, stall=None, stacks=[], processes=[], exits=[])


def first_pass(process, passes=1):
    loader = next(one for one in process.loaders if one.number == process.prepared[0].loader)
    inside = change(loader, passes=passes, pass_batches=2, ended=[], now="in the loop's body", optimizer_steps=2)
    loaders = [inside if one.number == loader.number else one for one in process.loaders]
    return change(process, loaders=loaders, phases=[], spans=[])


def prepared(process, **fields):
    return change(process, prepared=[change(one, **fields) for one in process.prepared])


def test_lengths_that_differ_are_told_while_the_first_pass_goes_on():
    known = with_ranks(going_on(evidence(UNEVEN)), first_pass)

    (found,) = findings(UNEVEN, known)

    assert found.symptom == "wrong"
    assert found.cause.startswith("The epoch will end in a deadlock: accelerate gave rank 1 only ")
    assert all_rules()[UNEVEN].predicts


@pytest.mark.parametrize(
    "saved",
    [
        lambda one: first_pass(one, passes=2),
        lambda one: change(first_pass(one), wrapped=[]),
        lambda one: change(first_pass(one), spans=[Span("Join", at=1.0)]),
        lambda one: change(first_pass(one), alive=False, ended=9.0),
    ],
    ids=["a pass is over and the run went on", "no collective in it", "inside of Join", "it came to its end"],
)
def test_lengths_that_differ_are_no_alarm_where_they_do_no_harm(saved):
    known = with_ranks(with_ranks(going_on(evidence(UNEVEN)), first_pass), saved)

    assert findings(UNEVEN, known) == []


def test_a_loop_inside_of_join_is_not_what_a_rank_is_stuck_by():
    known = with_ranks(evidence(UNEVEN), lambda one: change(one, spans=[*one.spans, Span("Join", at=1.0)]))

    assert findings(UNEVEN, known) == []


def test_ranks_whose_data_differed_before_prepare_are_another_matter():
    def own(process):
        before = process.prepared[0].before
        return prepared(process, before=change(before, batches=before.batches + process.rank))

    assert findings(UNEVEN, with_ranks(evidence(UNEVEN), own)) == []


def test_a_rank_that_waits_in_another_loop_is_not_stuck_by_this_loader():
    def validating(process):
        newer = change(process.loaders[-1], number=9, now_since=1e6)
        return change(process, loaders=[*process.loaders, newer])

    assert findings(UNEVEN, with_ranks(evidence(UNEVEN), validating)) == []


def test_a_loader_that_nobody_has_touched_yet_is_told_of_before_it_raises():
    known = with_ranks(evidence(NONE), lambda one: change(one, alive=True, failures=[], ended=None))

    (found,) = findings(NONE, known)

    assert found.symptom == "wrong"
    assert "will raise" in found.cause


@pytest.mark.parametrize("fields", [{"processes": 1}, {"dispatch_batches": True}], ids=["one process", "dispatched"])
def test_a_missing_batch_sampler_is_no_alarm_where_nobody_needs_one(fields):
    known = with_ranks(evidence(NONE), lambda one: prepared(one, **fields))

    assert findings(NONE, known) == []


def test_another_type_error_is_not_taken_for_it():
    def other(process):
        failures = [change(one, message="'int' object is not iterable") for one in process.failures]
        return change(process, failures=failures)

    assert findings(NONE, with_ranks(evidence(NONE), other)) == []


def test_a_dispatcher_that_keeps_up_is_left_alone():
    def quick(process):
        loaders = [change(one, waits=change(one.waits, total=one.waits.total / 50)) for one in process.loaders]
        return change(process, loaders=loaders)

    assert findings(DISPATCHER, with_ranks(evidence(DISPATCHER), quick)) == []


def idle(known):
    """As if rank 0 had not used its processor."""
    pid = Case(known).ranks[0].pid
    hosts = []
    for host in known.host:
        samples = [
            change(
                sample,
                processes=[
                    change(one, cpu=0.0, main_cpu=0.0, queued=0.0) if one.pid == pid and one.cpu is not None else one
                    for one in sample.processes
                ],
            )
            for sample in host.samples
        ]
        hosts.append(change(host, samples=samples))
    return change(known, host=hosts)


def plain_barrier(process):
    return change(process, spans=[one for one in process.spans if one.name == "barrier"])


def test_a_plain_barrier_gets_the_advice_for_a_plain_process_group():
    (found,) = findings(TIMEOUT, with_ranks(evidence(TIMEOUT), plain_barrier))

    assert found.cause.endswith("when rank 1 timed out in barrier after 5 s.")
    assert "init_process_group(..., timeout=datetime.timedelta(hours=1))" in found.remedy.code[0]


def test_a_rank_that_did_nothing_before_a_barrier_is_not_called_busy():
    assert findings(TIMEOUT, with_ranks(idle(evidence(TIMEOUT)), plain_barrier)) == []


def test_a_rank_that_came_to_the_barrier_later_was_at_work():
    known = with_ranks(idle(evidence(TIMEOUT)), plain_barrier)
    late = max(one.failure.at for one in Case(known).ranks if one.failure) + 2

    def comes(process):
        return process if process.failure else change(process, spans=[Span("barrier", at=late)])

    (found,) = findings(TIMEOUT, with_ranks(known, comes))

    assert "rank 0 reached it 2 s too late" in found.seen


def test_a_rank_that_slept_inside_of_main_process_first_is_named_without_calling_it_busy():
    (found,) = findings(TIMEOUT, idle(evidence(TIMEOUT)))

    assert found.cause.startswith("Rank 0 was still inside main_process_first")
    assert found.remedy.text.endswith("if rank 0 is meant to take that long there.")


def test_a_rank_that_waited_in_a_collective_itself_is_not_who_the_others_waited_for():
    def waits(process):
        return (
            process
            if process.failure
            else change(process, spans=[*process.spans, Span("barrier", at=process.spans[0].at)])
        )

    assert findings(TIMEOUT, with_ranks(evidence(TIMEOUT), waits)) == []
