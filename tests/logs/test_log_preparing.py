"""What the log says of a loader on its way through accelerate's `prepare`."""

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
PLAIN, STANDARD = "torch.utils.data.dataloader.DataLoader", "torch.utils.data.sampler.BatchSampler"
SHARD = "accelerate.data_loader.BatchSamplerShard"
BUCKETS = {"type": PLAIN, "length": 9, "batch_sampler": "train.Buckets", "batches": 9, "dataset_length": 36}
NOBODY = {"type": PLAIN, "length": 12, "batch_size": None, "batch_sampler": None, "dataset_length": 12}
WHERE = {"file": "/code/train.py", "line": 15, "function": "main"}


@pytest.fixture
def told(tmp_path):
    """What is told of facts that are noted, one after the other."""
    recorder = Recorder(str(tmp_path / "node.1.2.3.rec"), SMALL)
    recorder.words[f.H_ROLE] = f.ROLE_MAIN
    recorder.publish()
    main = MainProcess(Tail(recorder.path, RING, NOTES), Settings())
    main.called("[Rank 0]")

    def tell(facts, number=0):
        at = recorder.words[f.H_MONOTONIC]
        recorder.note(Kind.PREPARED, 0, at, 0, recorder.intern(json.dumps(facts)), number)
        lines = main.lines(main.tail.header[f.H_WALL] / 1e9 + 5, final=False)
        return [(one.level, one.text.removeprefix("[Rank 0] ")) for one in lines if one.name == "distributed"]

    return tell


def facts(before, processes=2, **more):
    common = {"processes": processes, "index": 0, "device": "cuda:0", "even_batches": True, "where": WHERE}
    return {**common, "split_batches": False, "dispatch_batches": None, "before": before, **more}


def test_a_loader_is_told_before_and_after_with_the_sampler_inside_of_its_shard(told):
    before = told(facts(BUCKETS))
    after = {**BUCKETS, "type": "accelerate.data_loader.DataLoaderShard", "length": 5, "shards": [SHARD]}

    assert [text for _, text in before] == [
        f"🔍 [DISTRIBUTED] before prepare at train.py:15: {PLAIN}, length 9, batch_size None, "
        "dataset map-style, length 36",
        "🔍 [DISTRIBUTED] - batch_sampler: <class 'train.Buckets'>",
        "🔍 [DISTRIBUTED] - number of processes: 2, this is 0",
        "🔍 [DISTRIBUTED] - device: cuda:0, even_batches=True, split_batches=False, dispatch_batches=None",
        "🔍 [BUCKETS] - batch_indices in all: 9",
    ]
    assert [text for _, text in told(facts(BUCKETS, after=after), 2)] == [
        "🔍 [DISTRIBUTED] after prepare: accelerate.data_loader.DataLoaderShard, length 5, batch_size None, "
        "dataset map-style, length 36, loader 2",
        f"🔍 [DISTRIBUTED] - batch_sampler: <class 'train.Buckets'>, inside of {SHARD}",
    ]


def test_a_missing_batch_sampler_is_an_error_where_it_will_fail(told):
    (error,) = [text for level, text in told(facts(NOBODY)) if level == "ERROR"]

    assert error.startswith("❌ [DISTRIBUTED] batch_sampler is None at train.py:15: batch_size=None leaves nothing")


@pytest.mark.parametrize(
    "harmless",
    [
        facts(NOBODY, processes=1),
        facts(NOBODY, dispatch_batches=True),
        facts({**NOBODY, "iterable": True}),
        facts({**NOBODY, "batch_size": 4, "batch_sampler": STANDARD}),
    ],
    ids=["on one process", "dispatched", "a stream", "there is one"],
)
def test_it_is_no_error_anywhere_else(told, harmless):
    assert [level for level, _ in told(harmless) if level == "ERROR"] == []


def test_a_length_that_could_not_be_had_says_why(told):
    after = {**NOBODY, "length": None, "failed": "TypeError: object of type 'NoneType' has no len()", "shards": [SHARD]}

    first, second = (text for _, text in told(facts(NOBODY, after=after), 2))

    assert "length none (TypeError: object of type 'NoneType' has no len())" in first
    assert second == f"🔍 [DISTRIBUTED] - batch_sampler: None, inside of {SHARD}"
