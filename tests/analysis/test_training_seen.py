"""No run is called healthy in which nothing of a training was seen; a command that was none is told in one line."""

from __future__ import annotations

import io

import msgspec
import pytest
from test_progress import USERS, evidence, task

from kept import evidence_of
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.distributed import Group
from unstuck.evidence.live import Frame, Rounds, Sampled, Seen, Task
from unstuck.evidence.loader import Loader, Source
from unstuck.evidence.process import Failure, Process, Progress
from unstuck.report import Report
from unstuck.views.console import PrintableConsole
from unstuck.views.terminal import show

PID = 100
COMPUTES = Task(tid=PID, state="R", cpu=1.0)
SPIN = [Sampled(PID, PID, 150, frames=[USERS])]
TRAINS = [*SPIN, Sampled(PID, PID, 9, frames=[Frame("/x/torch/nn/functional.py"), USERS])]
READS_ON = {"read": 1 << 20, "files": {"/data/a": 0}, "size": 1 << 30, "fresh": ["/data/a"]}


def process(**told) -> Process:
    return Process(node="node", pid=PID, parent=1, role="main", last_sign=9.0, **told)


def ended(*processes: Process) -> Report:
    return report_on(Evidence(Run("run", status=0), recording=list(processes) or None))


def text(report: Report) -> list[str]:
    out = io.StringIO()
    show(report, PrintableConsole(file=out, width=100, color_system=None), "runs/x")
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    "told",
    [
        pytest.param({"optimizer_steps": 50}, id="steps without a DataLoader"),
        pytest.param({"loaders": [Loader(1, passes=1, batches=10)]}, id="batches without an optimizer"),
        pytest.param({"sources": [Source("rows", "pyarrow", at=1.0, last=2.0, items=9)]}, id="documents"),
        pytest.param({"progress": [Progress("tokens", 5, 9)]}, id="what the user tells"),
        pytest.param({"group": Group(1.0, 2.0)}, id="ranks that have met"),
    ],
)
def test_a_run_that_ended_well_is_healthy_if_it_shows(told):
    assert ended(process(**told)).state == "healthy"


def test_a_command_that_only_imported_torch_is_no_healthy_training_and_told_in_one_line():
    report = ended(process(loaders=[Loader(1)]))

    assert report.state == "unknown"
    assert report.unsettled[0].startswith("Nothing of a training was seen: no batch, no optimizer step")
    assert len(text(report)) == 1


def test_a_command_without_torch_is_told_in_one_line_that_says_why():
    report = ended()

    assert report.state == "unknown"
    assert "no process imported torch where unstuck could see it" in report.unsettled[0]
    assert len(text(report)) == 1


def test_a_command_that_failed_is_told_at_length():
    report = report_on(Evidence(Run("run", status=3), recording=[process()]))

    assert report.unsettled == []
    assert len(text(report)) > 1


def spinning(**rounds) -> Evidence:
    """A main process that nothing is recorded of computes in code of its own, and was watched for longer."""
    run = evidence(COMPUTES, frames=[USERS], cpu=1.0)
    seen: Seen = (run.processes or [])[0]
    watched = Rounds(3.0, cpu=3.0, **{"samples": SPIN, **rounds})
    return msgspec.structs.replace(run, processes=[msgspec.structs.replace(seen, rounds=watched)])


def test_a_loop_that_reads_and_keeps_nothing_is_not_healthy_from_outside():
    report = report_on(spinning())

    assert report.state == "unknown"
    assert (
        "made no progress for 3 s at train.py:12 (loop): computing, with nothing to show for it" in report.unsettled[0]
    )


def test_a_folder_that_is_listed_again_and_again_is_no_progress_from_outside():
    assert report_on(spinning(files={"/data/wanted": 40})).state == "unknown"


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param({"written": 20}, id="it prints"),
        pytest.param({"grown": 10 << 20}, id="it keeps something"),
        pytest.param(READS_ON, id="it reads on"),
        pytest.param({"samples": TRAINS}, id="it trains"),
    ],
)
def test_a_computation_with_something_to_show_is_healthy_from_outside(rounds):
    assert report_on(spinning(**rounds)).state == "healthy"


def recorded(**about) -> Report:
    """Before its first batch, 5 s after its last sign."""
    run = evidence(about.pop("main", COMPUTES), frames=[USERS], **about)
    known = [process(alive=True)]
    return report_on(msgspec.structs.replace(run, recording=known, looked_at=14.0))


def test_a_recorded_run_that_only_computes_before_its_first_batch_is_unknown():
    report = recorded()

    assert report.state == "unknown"
    assert report.unsettled[0].startswith("Nothing of a training was seen")


@pytest.mark.parametrize("about", [{"private_grown": 9 << 20}, {"main": task(PID, state="R", cpu=1.0, read=9 << 20)}])
def test_a_recorded_run_that_loads_something_before_its_first_batch_is_healthy(about):
    assert recorded(**about).state == "healthy"


def test_a_run_that_was_stopped_while_it_looped_stays_stuck_afterwards():
    live = evidence_of("loop-without-batch", "found")
    over = [msgspec.structs.replace(one, alive=False) for one in live.recording or ()]
    thread = Failure("thread", "KeyError", "'no such model'", 2.0, thread="Thread-1 (load)")
    over = [msgspec.structs.replace(one, failures=[thread]) for one in over]
    run = msgspec.structs.replace(live.run, status=-15)

    report = report_on(msgspec.structs.replace(live, run=run, recording=over))

    assert report.state == "stuck"
    assert report.findings[0].rule == "loop-without-batch"
    assert "thread Thread-1 (load) raised KeyError: 'no such model'" in report.findings[0].seen
