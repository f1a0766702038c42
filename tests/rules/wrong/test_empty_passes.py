"""An exception right after a pass without a batch is what the empty loader led to; any other stands for itself."""

from __future__ import annotations

import msgspec
import pytest

from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.loader import Loader, Pass
from unstuck.evidence.process import Failure, Process

EMPTY, RAISED = "empty-loader-drop-last", "uncaught-exception"


def empty(at: float = 8.0, *, drop_last: bool = True, **more) -> Loader:
    told = {
        "dataset_length": 5 if drop_last else 0, "length": 0, "batch_size": 10, "drop_last": drop_last, "passes": 1,
        "ended": [Pass(1, 0, at)], "now": "between passes", "now_since": at, "sampler": "SequentialSampler",
    }  # fmt: skip
    return Loader(2, **{**told, **more})


def trained(until: float) -> Loader:
    return Loader(
        1, batch_size=10, length=10, passes=1, batches=10, optimizer_steps=10, ended=[Pass(1, 10, until)],
        now="between passes", now_since=until, pass_batches=10,
    )  # fmt: skip


def roles(*loaders: Loader, kind: str = "ZeroDivisionError", step: float | None = None) -> dict[str, str]:
    failure = Failure("uncaught", kind, "division by zero", 9.0, frames=[Place("/code/train.py", 7, "evaluate")])
    main = Process(
        node="node", pid=7, parent=1, role="main", last_sign=9.0, loaders=list(loaders), failures=[failure],
        optimizer_steps=10 if step else 0, last_step=step,
    )  # fmt: skip
    report = report_on(Evidence(Run("run", status=1), recording=[main]))
    assert report.state == "crashed"
    return {one.rule: one.role for one in report.findings}


@pytest.mark.parametrize(
    "kind", ["ZeroDivisionError", "UnboundLocalError", "StopIteration", "statistics.StatisticsError"]
)
def test_what_is_raised_right_after_an_empty_pass_is_its_consequence(kind):
    assert roles(empty(), kind=kind) == {EMPTY: "root", RAISED: "consequence"}


def test_a_training_before_the_empty_pass_changes_nothing():
    assert roles(trained(7.0), empty(), step=6.9) == {EMPTY: "root", RAISED: "consequence"}


def test_one_pass_over_no_samples_is_enough_where_an_exception_followed():
    assert roles(trained(7.0), empty(drop_last=False), step=6.9) == {EMPTY: "root", RAISED: "consequence"}


def test_what_is_raised_after_further_batches_stands_for_itself():
    assert roles(empty(6.0), trained(8.5), step=8.4) == {EMPTY: "root", RAISED: "root"}


def test_a_validation_between_the_empty_training_and_the_exception_changes_nothing():
    validated = msgspec.structs.replace(trained(8.5), optimizer_steps=0)

    assert roles(empty(6.0), validated) == {EMPTY: "root", RAISED: "consequence"}


def test_what_is_raised_after_further_steps_stands_for_itself():
    assert roles(empty(6.0), step=8.4) == {EMPTY: "root", RAISED: "root"}


def test_a_server_that_cannot_be_reached_has_nothing_to_do_with_an_empty_pass():
    assert roles(empty(), kind="ConnectionError") == {EMPTY: "root", RAISED: "root"}


def test_an_empty_validation_that_was_meant_explains_no_later_exception():
    assert roles(empty(6.0, drop_last=False), trained(8.5), step=8.4) == {RAISED: "root"}
