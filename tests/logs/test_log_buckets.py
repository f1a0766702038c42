"""What the log says of bucketed datasets, of notes, and of batches that are passed over."""

from __future__ import annotations

import json

import pytest

from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import Kind
from unstuck.logs.files import Settings
from unstuck.logs.rank import NOTES, RING, MainProcess
from unstuck.recordings.tail import Tail

SMALL = f.Layout(board=16, totals=16, ring=64, notes=64, strings=8192, last_words=4096)
WHERE = {"file": "/code/data.py", "line": 30, "function": "setup_buckets"}
FACTS = {
    "dataset": "data.Pictures", "which": 1, "where": WHERE, "files": {"512x768": 14, "768x512": 9}, "count": 2,
    "total_files": 23, "batch_size": 4, "batches": 7, "partial": 2,
}  # fmt: skip


@pytest.fixture
def told(tmp_path):
    """What is told of a note, one after the other."""
    recorder = Recorder(str(tmp_path / "node.1.2.3.rec"), SMALL)
    recorder.words[f.H_ROLE] = f.ROLE_MAIN
    recorder.words[f.H_WORLD] = 2
    recorder.publish()
    main = MainProcess(Tail(recorder.path, RING, NOTES), Settings())
    main.called("[Rank 0]")

    def tell(kind, facts, key=0, b=0, took=0):
        at = recorder.words[f.H_MONOTONIC]
        a = recorder.intern(json.dumps(facts)) if isinstance(facts, dict) else facts
        recorder.note(kind, recorder.intern(key) if isinstance(key, str) else key, at, took, a, b)
        lines = main.lines(main.tail.header[f.H_WALL] / 1e9 + 5, final=False)
        return [one.text.removeprefix("[Rank 0] ") for one in lines if one.name == "buckets"]

    tell.intern = recorder.intern
    return tell


def test_setting_buckets_up_is_told_step_by_step_and_each_bucket_once(told):
    first = told(Kind.BUCKETS, {**FACTS, "step": "build_batch_indices"}, took=3_000_000)
    then = told(Kind.BUCKETS, {**FACTS, "step": "setup_buckets"}, took=20_000_000)

    assert first == [
        "🔍 [BUCKETS] Pictures.build_batch_indices (data.py:30) ✓ in 3 ms: "
        "2 buckets, 23 files, 7 batches, batch_size 4",
        "🔍 [BUCKETS] - 512x768: 14 files",
        "🔍 [BUCKETS] - 768x512: 9 files",
        "🔍 [BUCKETS] - batch_indices in all: 7, 2 of them not full",
    ]
    assert then == [
        "🔍 [BUCKETS] Pictures.setup_buckets (data.py:30) ✓ in 20 ms: 2 buckets, 23 files, 7 batches, batch_size 4"
    ]


def test_the_set_up_of_an_epoch_has_its_own_tag(told):
    assert told(Kind.BUCKETS, {**FACTS, "step": "setup_epoch"})[0].startswith("🔍 [SETUP_EPOCH] Pictures.setup_epoch")


def test_a_loader_that_reads_buckets_is_told_with_what_is_left_over(told):
    assert told(Kind.BUCKETS, FACTS, b=3) == [
        "🔍 [BUCKETS] Pictures is read by loader 3",
        "🔍 [DISTRIBUTED] - 7 batches, the same list on all of 2 processes: 3 each, remainder 1: rank 0 gets 4; "
        "with even_batches or DistributedSampler, 1 batch would be repeated",
    ]
    assert told(Kind.BUCKETS, {**FACTS, "batches": 8}, b=4)[1].endswith("4 each, nothing left over")


def test_a_note_stands_under_its_tag_and_one_about_buckets_is_told_as_such(told):
    assert told(Kind.NOTE, {"stage": 2, "lr": 0.1}, key="curriculum") == ["🔍 [curriculum] stage=2, lr=0.1"]
    assert told(Kind.NOTE, {"files": {"a": 1}}, key="BUCKETS") == []
    assert told(Kind.BUCKETS, {"told": True, "files": {"a": 5}, "count": 1, "batches": 2})[:2] == [
        "🔍 [BUCKETS] the dataset, from unstuck.note",
        "🔍 [BUCKETS] - a: 5 files",
    ]


def test_batches_that_are_passed_over_are_told_when_it_begins(told):
    assert told(Kind.SKIPPING, 120, key=2, b=told.intern("accelerate.skip_first_batches")) == [
        "🔍 [SETUP_EPOCH] passing over 120 batches of loader 2 that were trained before (accelerate.skip_first_batches)"
    ]
