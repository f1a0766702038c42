"""A collective of one rank that ended the process at once: nothing is left but the line, and how far each had come."""

from __future__ import annotations

from unstuck.analysis.case import Case
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.distributed import Collective, Phase
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Process
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

SIGABRT, SIGTERM = -6, -15
LINE = Place("/code/train.py", 46, "train")
CALLS = [
    LINE,
    Place("/v/site-packages/torch/distributed/c10d_logger.py", 83, "wrapper"),
    Place("/v/site-packages/torch/distributed/distributed_c10d.py", 3197, "all_reduce"),
]


def rank(number: int, batches: int, phases: list[Phase], **fields) -> Process:
    loader = Loader(1, passes=2, batches=batches, pass_batches=batches - 12, optimizer_steps=batches)
    return Process("n", 10 + number, 1, "main", number, world=2, loaders=[loader], phases=phases, **fields)


def roots(first: Process, second: Process) -> list[str]:
    exits = [Exit(10, SIGABRT, 9.0, "reaped"), Exit(11, SIGTERM, 9.1, "reaped")]
    told = Evidence(Run("r"), recording=[first, second], exits=exits)
    rules = [all_rules()[name] for name in ("rank0-only-collective", "rank-conditional-eval", "ddp-uneven-batches")]
    return [finding.rule for rule in rules for finding in judge_one(rule, Case(told)).findings]


TRAINING = Phase("training", 1, 5.0, loader=1, number_of_pass=2, batches=6, steps=6)


def test_a_rank_that_crashed_in_a_collective_while_others_were_ahead_was_alone_in_it():
    assert roots(rank(0, 18, [TRAINING], crash_beside=CALLS), rank(1, 19, [TRAINING])) == ["rank0-only-collective"]


def test_the_same_in_a_validation_that_the_others_never_entered():
    validation = Phase("validation", 1, 6.0, 8.0, loader=2, number_of_pass=1, batches=4)

    first = rank(0, 18, [TRAINING, validation], crash_beside=CALLS)

    assert roots(first, rank(1, 19, [TRAINING])) == ["rank-conditional-eval"]


def test_a_rank_that_crashed_in_a_collective_together_with_the_others_was_not():
    assert roots(rank(0, 18, [TRAINING], crash_beside=CALLS), rank(1, 18, [TRAINING])) == []


def traced(number: int, calls: int, instead: str = "") -> Process:
    """So many collectives at one line, of which rank 0 waits in the last; and one at another line, perhaps."""
    made = [Collective(each, "all_reduce", float(each), finished=each < 8, where=LINE) for each in range(calls)]
    made += (
        [Collective(calls, instead, 9.0, finished=False, where=Place("/code/train.py", 50, "train"))] if instead else []
    )
    return rank(number, 18, [TRAINING], collectives=made, traced=9.0, last_sign=9.0)


def test_a_rank_that_was_told_to_go_before_it_came_to_the_call_was_only_late():
    assert roots(traced(0, 9), traced(1, 8)) == []


def test_one_that_called_something_else_instead_went_another_way():
    assert roots(traced(0, 9), traced(1, 8, "barrier")) == ["rank0-only-collective"]
