"""What the log of each rank says of its part in a distributed run."""

from __future__ import annotations

import json
import re

import pytest
from test_logs import grep, logs_in, run_unstuck

from unstuck.analysis.case import Case
from unstuck.diagnose import gather
from unstuck.inside import format as f
from unstuck.inside.core.recorder import Recorder
from unstuck.inside.format import Kind
from unstuck.logs.files import Settings
from unstuck.logs.rank import NOTES, RING, MainProcess
from unstuck.recordings.tail import Tail

SMALL = f.Layout(board=16, totals=16, ring=256, notes=64, strings=8192, last_words=4096)
SECOND = 1_000_000_000


@pytest.fixture
def rank(tmp_path):
    """The recording of rank 3, and the one who follows it."""
    recorder = Recorder(str(tmp_path / "node.1.2.3.rec"), SMALL)
    recorder.words[f.H_ROLE] = f.ROLE_MAIN
    recorder.words[f.H_RANK] = 4
    recorder.publish()
    main = MainProcess(Tail(recorder.path, RING, NOTES), Settings())
    main.called("[Rank 3]")
    return recorder, main


class Barrier:
    """One at train.py:40, played into a recording."""

    def __init__(self, recorder, name="barrier"):
        self.recorder = recorder
        self.key = recorder.intern(f"{name}\n/code/train.py\n40\nmain")
        self.slot = recorder.board_slot(Kind.SPAN, self.key)
        self.start = recorder.words[f.H_MONOTONIC]
        recorder.board(self.slot, Kind.SPAN, self.key, self.start, 1)

    def ends(self, seconds, failed=0):
        self.recorder.event(Kind.SPAN, self.key, self.start, int(seconds * SECOND), failed)
        self.recorder.board(self.slot, Kind.SPAN, self.key, self.start + int(seconds * SECOND))


def told(main, after, final=False):
    """Lines about ranks, so many seconds after the recording began."""
    began = main.tail.header[f.H_WALL] / 1e9
    lines = main.lines(began + after, final=final)
    return [one.text.removeprefix("[Rank 3] ") for one in lines if "[DISTRIBUTED]" in one.text]


def test_a_barrier_that_is_waited_in_is_told_while_it_goes_on_and_when_it_is_passed(rank):
    recorder, main = rank
    barrier = Barrier(recorder)
    assert told(main, 0.5) == []
    assert told(main, 1.5) == ["🔄 [DISTRIBUTED] rank 3 - barrier at train.py:40: waiting ..."]
    assert told(main, 2.5) == []
    barrier.ends(3.2)
    assert told(main, 4.0) == ["✅ [DISTRIBUTED] rank 3 - barrier at train.py:40: passed after 3.2 s"]


def test_a_barrier_that_is_passed_at_once_is_told_the_first_time_only(rank):
    recorder, main = rank
    Barrier(recorder).ends(0.002)
    assert told(main, 1.0) == ["✅ [DISTRIBUTED] rank 3 - barrier at train.py:40: passed after 2 ms"]
    Barrier(recorder).ends(0.003)
    assert told(main, 2.0) == []


def test_a_long_wait_that_nobody_saw_going_on_has_both_lines(rank):
    recorder, main = rank
    Barrier(recorder).ends(1.2)
    signs = [one.split()[0] for one in told(main, 5.0)]
    assert signs == ["🔄", "✅"]


def test_a_rank_that_ends_in_a_barrier_has_no_second_line(rank):
    recorder, main = rank
    Barrier(recorder)
    assert told(main, 0.3, final=True) == ["🔄 [DISTRIBUTED] rank 3 - barrier at train.py:40: waiting ..."]


def test_a_barrier_that_fails_is_an_error(rank):
    recorder, main = rank
    Barrier(recorder, "monitored_barrier").ends(0.5, failed=1)
    assert told(main, 1.0) == ["❌ [DISTRIBUTED] rank 3 - monitored_barrier at train.py:40: failed after 500 ms"]


def test_a_block_is_no_wait(rank):
    recorder, main = rank
    join = Barrier(recorder, "Join")
    assert told(main, 1.5) == ["🔍 [DISTRIBUTED] rank 3 - Join at train.py:40: entered"]
    join.ends(3.0)
    assert told(main, 4.0) == ["✅ [DISTRIBUTED] rank 3 - Join at train.py:40: left after 3 s"]


def test_the_process_group_is_told_when_it_is_asked_for_and_when_it_is_there(rank):
    recorder, main = rank
    start = recorder.words[f.H_MONOTONIC]
    known = {"where": {"file": "/code/train.py", "line": 9, "function": "main"}, "address": "10.0.0.1:29500"}
    recorder.note(Kind.GROUP, 0, start, 0, recorder.intern(json.dumps(known | {"rank": 3, "world": 8})))
    assert told(main, 1.0) == [
        "🔄 [DISTRIBUTED] rank 3 - process group at train.py:9: waiting for all ranks, 10.0.0.1:29500"
    ]
    known |= {"backend": "gloo", "rank": 3, "world": 8, "timeout": 1800.0}
    recorder.note(Kind.GROUP, 0, start, 2 * SECOND, recorder.intern(json.dumps(known)), 1)
    assert told(main, 3.0) == [
        "✅ [DISTRIBUTED] rank 3 - process group at train.py:9: gloo, rank 3 of 8, 10.0.0.1:29500, "
        "timeout 30 min 0 s, made in 2 s"
    ]


def test_a_group_that_could_not_be_made_is_an_error(rank):
    recorder, main = rank
    recorder.note(Kind.GROUP, 0, recorder.words[f.H_MONOTONIC], SECOND, recorder.intern("{}"), 2)
    assert told(main, 3.0) == ["❌ [DISTRIBUTED] rank 3 - process group: could not be made, after 1 s"]


def test_a_wrapped_model_is_told_with_what_was_asked_for(rank):
    recorder, main = rank
    known = {"kind": "DistributedDataParallel", "find_unused_parameters": True, "parameters": 12}
    recorder.note(Kind.WRAPPED, 0, recorder.words[f.H_MONOTONIC], 0, recorder.intern(json.dumps(known)))
    assert told(main, 1.0) == [
        "🔍 [DISTRIBUTED] rank 3 - DistributedDataParallel: 12 parameters with a gradient, find_unused_parameters=True"
    ]


RANKS = """
import tempfile, time, torch, torch._dynamo
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

def work(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = DataLoader(TensorDataset(torch.rand(12, 2)), batch_size=4)
    for epoch in range(2):
        model.train()
        for (rows,) in data:
            model(rows).sum().backward()
            optimizer.step()
        model.eval()
        for (rows,) in data:
            model(rows)
        if rank == 0 and epoch == 0:
            time.sleep(2.5)
        dist.barrier()
    del model  # freed after the group, it may wait for ever: for a thread of gloo that waits for the interpreter
    dist.destroy_process_group()

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(work, (folder,), nprocs=2, start_method="fork")
"""


@pytest.mark.scenario
def test_every_rank_has_its_log_with_its_marks_and_its_barriers(tmp_path):
    ended = run_unstuck(tmp_path, text=RANKS)

    assert ended.returncode == 0, ended.stderr
    logs = logs_in(tmp_path)
    assert [path.name[:11] for path in sorted(logs.glob("debug*"))] == ["debug_rank0", "debug_rank1"]
    epoch = ["TRAINING START", "TRAINING END", "VALIDATION START", "VALIDATION END"]
    for rank in (0, 1):
        marks = grep(logs, '"EPOCH.*START\\|EPOCH.*END"', f"debug_rank{rank}_*.log")
        found = [re.search(r"EPOCH \d \w+ \w+", line)[0] for line in marks]
        assert found == [f"EPOCH {number} {mark}" for number in (0, 1) for mark in epoch]
        (group,) = grep(logs, '"✅.*process group"', f"debug_rank{rank}_*.log")
        assert f"✅ [DISTRIBUTED] rank {rank} - process group at train.py:9: gloo, rank {rank} of 2, file://" in group
    for process in Case(gather(logs.parent)).ranks:
        told = [f"EPOCH {one.number} {one.kind.upper()} START" for one in process.phases]
        assert told == [f"EPOCH {number} {mark}" for number in (0, 1) for mark in epoch if mark.endswith("START")]
    waited = [line.partition("] 🔄 ")[2] for line in grep(logs, '"🔄.*barrier"', "debug_rank1_*.log")]
    assert waited == ["[DISTRIBUTED] rank 1 - barrier at train.py:23: waiting ..."]
    assert grep(logs, '"🔄.*barrier"', "debug_rank0_*.log") == []
    passed = grep(logs, '"✅.*barrier"', "debug_rank1_*.log")[0]
    assert 2 < float(re.search(r"passed after ([\d.]+) s", passed)[1]) < 30
