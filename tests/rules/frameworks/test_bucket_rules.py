"""What turns the verdicts about buckets, dispatched batches and batches that were lost, one fact at a time."""

from __future__ import annotations

import msgspec

from kept import evidence_of as evidence
from unstuck.analysis.case import Case
from unstuck.analysis.passes import in_words
from unstuck.evidence.distributed import Span
from unstuck.evidence.loader import Skipping
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

change = msgspec.structs.replace
REMAINDER, LOST, DISPATCH = "bucket-remainder", "batch-not-picklable", "accelerate-dispatch-shape-mismatch"


def found(rule, told):
    judgement = judge_one(all_rules()[rule], Case(told))
    assert judgement.verdict in ("found", "clear"), judgement.error
    return judgement.findings


def mains(told, make):
    return change(told, recording=[make(one) if one.role == "main" else one for one in told.recording])


def with_buckets(told, make):
    """`make(rank, buckets)` for the buckets that a loader reads."""
    return mains(
        told, lambda one: change(one, buckets=[make(one.rank, each) for each in one.buckets if each.loader is not None])
    )


def test_a_number_of_batches_that_the_ranks_divide_is_not_the_reason():
    told = evidence(REMAINDER, "found")
    assert found(REMAINDER, told)
    assert found(REMAINDER, with_buckets(told, lambda _, one: change(one, batches=8))) == []
    assert found(REMAINDER, mains(told, lambda one: change(one, buckets=[]))) == []


def test_lists_that_each_rank_has_cut_for_itself_add_up_to_the_same_remainder():
    told = with_buckets(evidence(REMAINDER, "found"), lambda rank, one: change(one, batches=5 - rank))
    (finding,) = found(REMAINDER, told)
    assert finding.cause.startswith("Deadlock: 9 batches do not divide over 2 ranks, so rank 0 waits")
    assert "9 = 2 ranks × 4 + 1" in finding.seen


def test_files_that_are_divided_before_they_are_sorted_are_told_as_such():
    own = {0: {"48x32": 14, "32x48": 4}, 1: {"32x48": 5, "40x40": 8}}
    told = with_buckets(evidence(REMAINDER, "found"), lambda rank, one: change(one, batches=5 - rank, files=own[rank]))
    (finding,) = found(REMAINDER, told)
    assert "(5 on rank 0, 4 on rank 1)" in finding.cause
    assert "slice the batches instead of the files" in finding.remedy.text
    assert finding.remedy.code[-1].endswith("[rank::2]")


def test_what_the_program_says_of_its_buckets_counts_where_it_has_one_loader():
    def as_note(_, one):
        return change(one, told=True, loader=None, index="", dataset="", where=None)

    told = with_buckets(evidence(REMAINDER, "found"), as_note)
    assert any("unstuck.note" in line for line in found(REMAINDER, told)[0].seen)
    second = mains(told, lambda one: change(one, loaders=[*one.loaders, change(one.loaders[0], number=2)]))
    assert found(REMAINDER, second) == []


def test_ranks_inside_of_join_may_end_when_they_like():
    told = mains(evidence(REMAINDER, "found"), lambda one: change(one, spans=[*one.spans, Span("Join", 0.0)]))
    assert found(REMAINDER, told) == []


def test_a_batch_is_only_missed_where_the_loop_waits_for_it():
    told = evidence(LOST, "found")

    def loaders(**fields):
        return mains(told, lambda one: change(one, loaders=[change(each, **fields) for each in one.loaders]))

    assert found(LOST, told)
    assert found(LOST, loaders(now="in the loop's body")) == []
    assert found(LOST, loaders(pass_batches=500)) == []  # all of them were delivered, as far as it is in order
    assert found(LOST, loaders(pids=[1, 2])) == []


def test_a_message_that_another_queue_lost_is_none_of_the_loaders():
    told = evidence(LOST, "found")
    workers = [
        change(one, failures=[change(each, batch=None) for each in one.failures]) if one.role == "worker" else one
        for one in told.recording
    ]
    assert found(LOST, change(told, recording=workers)) == []


def test_an_error_of_the_same_words_outside_of_the_dispatcher_is_another():
    told = evidence(DISPATCH, "found")
    elsewhere = mains(
        told,
        lambda one: change(
            one,
            failures=[
                change(each, frames=[place for place in each.frames if "accelerate" not in place.file])
                for each in one.failures
            ],
        ),
    )
    assert found(DISPATCH, told)
    assert found(DISPATCH, elsewhere) == []


def test_what_is_passed_over_says_how_far_it_is():
    one = Skipping("accelerate.skip_first_batches", since=3.0, skipped=120, of=400, seconds=12.0)
    assert in_words(one) == (
        "skipping 120 of 400 batches that were trained before (accelerate.skip_first_batches), about 28 s left"
    )
    assert in_words(change(one, skipped=1)).endswith("(accelerate.skip_first_batches)")


def test_an_item_that_a_process_of_torchdatas_nodes_could_not_send_is_named_as_such():
    told = evidence(LOST, "found")

    def of_nodes(one):
        loaders = [change(each, type="torchdata.nodes.loader.Loader") for each in one.loaders]
        failures = [change(each, batch=None, index=200) for each in one.failures]
        return change(one, loaders=loaders, failures=failures)

    (finding,) = found(LOST, change(told, recording=[of_nodes(one) for one in told.recording]))
    assert finding.cause.startswith("Deadlock: item 200 was dropped because batch['undo'] (a lambda) cannot be pickled")
    assert finding.seen[-1].startswith("loader: torchdata.Loader[Sentences]")
    assert "from the item:" in finding.remedy.text
