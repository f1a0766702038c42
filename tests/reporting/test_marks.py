"""Between which marks each rank stands, and what that means for the run."""

from __future__ import annotations

import pytest

from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.distributed import Phase, Span
from unstuck.evidence.live import Frame, Seen, Stack, Stall, Task
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Process
from unstuck.reporting.activities import between, meaning

TORCH = "/venv/lib/python3.11/site-packages/torch"
BARRIER = [Frame(f"{TORCH}/distributed/distributed_c10d.py", 5000, "barrier"), Frame("/code/train.py", 52, "main")]
BACKWARD = [
    Frame("libtorch_cpu.so", 0, "c10d::ProcessGroupGloo::AsyncWork::wait", native=True),
    Frame(f"{TORCH}/autograd/graph.py", 829, "_engine_run_backward"),
    Frame("/code/train.py", 31, "main"),
]
READING = [Frame("/code/train.py", 12, "read")]


def train(number=0, at=1.0, ended=None, **more):
    return Phase("training", number, at, ended, loader=1, number_of_pass=number + 1, steps=4, **more)


def validate(number=0, at=3.0, ended=None):
    return Phase("validation", number, at, ended, loader=2, number_of_pass=number + 1)


def rank(number, *phases, now="in the loop's body", batches=8):
    newest = max((one.number_of_pass or 0 for one in phases if one.loader == 1), default=0)
    loader = Loader(1, passes=newest, pass_batches=batches, length=8, now=now)
    spans = [Span("barrier", 5.0, where=Place("/code/train.py", 52, "main"))]
    return Process(
        "node", 100 + number, 1, "main", rank=number, world=2, alive=True, loaders=[loader], phases=list(phases),
        spans=spans if phases and phases[-1].ended is not None else [],
    )  # fmt: skip


def run(*ranks_and_calls):
    """A run that stands: each rank with the calls of its main thread."""
    seen, stacks = [], []
    for process, calls in ranks_and_calls:
        task = Task(process.pid, "S")
        seen.append(Seen("node", process.pid, 1, "main", rank=process.rank, tasks=[task], looked=1.0))
        stacks.append(Stack(process.pid, process.pid, frames=calls, before=calls))
    return Evidence(
        Run("run"), [process for process, _ in ranks_and_calls], processes=seen, stacks=stacks,
        stall=Stall(0, 100, since=5.0, seconds=70.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        ([], ""),
        ([train()], "in EPOCH 0 TRAINING, batch 8 of 8"),
        ([train(ended=2.0)], "after EPOCH 0 TRAINING END"),
        ([train(ended=2.0), validate(ended=4.0)], "after EPOCH 0 VALIDATION END"),
        (
            [train(ended=2.0), validate(ended=4.0), train(1, 5.0, 6.0)],
            "after EPOCH 1 TRAINING END, before EPOCH 1 VALIDATION START",
        ),
        (
            [train(ended=2.0), validate(ended=4.0), train(1, 5.0, 6.0), validate(1, 6.5, 7.0)],
            "after EPOCH 1 VALIDATION END, before EPOCH 2 TRAINING START",
        ),
        (
            [train(ended=2.0), validate(ended=4.0), Phase("checkpoint", 0, 4.5, 4.9)],
            "after EPOCH 0 VALIDATION END and a checkpoint",
        ),
        ([Phase("checkpoint", 0, 4.5, 4.9)], "before the first EPOCH START"),
        ([Phase("", 0, 1.0)], "in EPOCH 0"),
    ],
)
def test_a_rank_stands_between_marks_that_this_run_has_gone_through(phases, said):
    assert between(rank(0, *phases), []) == said


def test_in_lightning_validation_lies_inside_the_training_epoch():
    inside = [train(), validate(at=2.0, ended=3.0)]
    assert between(rank(0, *inside), []) == "in EPOCH 0 TRAINING, batch 8 of 8, after EPOCH 0 VALIDATION END"


def test_a_rank_that_waits_for_data_says_for_which_batch():
    assert between(rank(0, train(), now="waiting for a batch", batches=4), []).endswith("waiting for batch 5 of 8")


def test_what_comes_next_may_be_known_from_another_rank():
    ahead = rank(1, train(ended=2.0), validate())
    assert between(rank(0, train(ended=2.0)), [ahead]) == "after EPOCH 0 TRAINING END, before EPOCH 0 VALIDATION START"


def test_ranks_that_wait_at_different_marks_went_different_ways():
    evidence = run((rank(0, train(ended=2.0)), BARRIER), (rank(1, train()), BACKWARD))
    assert meaning(Case(evidence)) == (
        "rank 0 is after EPOCH 0 TRAINING END, in barrier at train.py:52; rank 1 is still in EPOCH 0 TRAINING, "
        "batch 8 of 8, in backward at train.py:31. They took different paths and wait for each other."
    )


def test_a_rank_that_waits_for_nobody_is_what_the_others_wait_for():
    evidence = run((rank(0, train(ended=2.0)), BARRIER), (rank(1, train(), batches=3), READING))
    assert meaning(Case(evidence)) == (
        "rank 0 is after EPOCH 0 TRAINING END, in barrier at train.py:52; rank 1 is in EPOCH 0 TRAINING, "
        "batch 3 of 8, and in no collective. What holds it up is its own: its data, its computing, or other work."
    )


def test_ranks_in_the_same_call_are_not_told_apart_by_marks():
    evidence = run((rank(0, train(ended=2.0)), BARRIER), (rank(1, train(ended=2.0)), BARRIER))
    assert meaning(Case(evidence)) == (
        "all ranks are after EPOCH 0 TRAINING END, in the same call, barrier at train.py:52."
    )


@pytest.mark.parametrize("calls", [[READING, READING], [BARRIER]])
def test_nothing_is_said_where_nobody_waits_or_there_is_one_rank(calls):
    assert meaning(Case(run(*((rank(number, train()), one) for number, one in enumerate(calls))))) == ""


def test_the_report_has_it_for_every_rank_and_for_the_run():
    report = report_on(run((rank(0, train(ended=2.0)), BARRIER), (rank(1, train()), BACKWARD)))
    assert [one.between for one in report.activities] == [
        "after EPOCH 0 TRAINING END",
        "in EPOCH 0 TRAINING, batch 8 of 8",
    ]
    assert report.meaning.startswith("rank 0 is after EPOCH 0 TRAINING END, in barrier at train.py:52; rank 1")
