"""Hooks that hold a training up and hooks that do not, validations that were left out: on evidence that is made up."""

from __future__ import annotations

import msgspec
import pytest

from kept import evidence_of as evidence
from unstuck.analysis.case import Case
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.finding import Finding, Remedy
from unstuck.evidence.frameworks import Callback, Framework
from unstuck.evidence.live import Frame, Seen, Stack, Stall, Task
from unstuck.evidence.loader import CALLBACK, CHECKPOINT, Call, Gap, Loader, Part, Pass, State
from unstuck.evidence.process import Process
from unstuck.reporting.notes import acquitted

LINE = Place("/code/train.py", 30, "on_train_epoch_end")
FIT = Framework("Lightning", what="fit", module="Net", callbacks=[Callback("Plots"), Callback("Mail")], epochs=4)


def trained(seconds: float, name: str = "Plots.on_train_epoch_end", framework: Framework = FIT, **more) -> Process:
    """Four epochs in 40 seconds, with a hook of so many seconds between them."""
    parts = [Part(CALLBACK, name, seconds, where=LINE), Part(CHECKPOINT, "torch.save", 0.5)]
    gaps = [Gap(10.0 * number, seconds + 0.5, number, parts) for number in (1, 2, 3)]
    loader = Loader(
        1, batches=200, passes=4, optimizer_steps=200, states=[State(0.0, 1)], ended=[Pass(4, 50, 39.0)],
        boundaries=gaps,
    )  # fmt: skip
    calls = [Call(CALLBACK, name, LINE, Timing(4, 4 * seconds, seconds), at=1.0, last=39.0)]
    told = {"loaders": [loader], "calls": calls, "frameworks": [framework], **more}
    return Process(node="node", pid=7, parent=1, role="main", ended=40.0, last_sign=40.0, **told)


def roots(one: Process) -> list[Finding]:
    report = report_on(Evidence(Run("run", status=0), recording=[one]))
    return [each for each in report.findings if each.role == "root"]


def code_of(finding: Finding) -> str:
    """Of the first of the other ways."""
    return finding.alternatives[0].code[0]


def test_a_hook_of_seconds_between_epochs_is_named_with_its_class_and_its_price():
    (one,) = roots(trained(3.0))

    assert one.rule == "callback-blocks-epoch-end"
    assert one.where == LINE
    assert one.cause.startswith("Training pauses 3 s between epochs in the callback Plots.on_train_epoch_end: ")
    assert "Plots.on_train_epoch_end: 3 calls of 3 s, 9 s in all" in one.seen
    assert "in a thread" in one.remedy.text
    assert code_of(one).startswith("if trainer.current_epoch %")


def test_a_hook_is_not_asked_to_run_more_seldom_than_the_run_has_epochs():
    few = msgspec.structs.replace(FIT, settings={"max_epochs": 3})
    many = msgspec.structs.replace(FIT, settings={"max_epochs": 6})
    (one,) = roots(trained(3.0, framework=few))
    (other,) = roots(trained(3.0, framework=many))

    assert [each.text for each in one.alternatives] == [
        "Do it once, at the end of the training: move it to on_train_end."
    ]
    assert code_of(other) == "if trainer.current_epoch % 3 == 0:"


def test_a_hook_of_the_model_is_called_its_own():
    (one,) = roots(trained(3.0, "Net.on_train_epoch_end"))

    assert "the model's own Net.on_train_epoch_end" in one.cause
    assert code_of(one).startswith("if self.current_epoch %")


@pytest.mark.parametrize("seconds", [0.2, 0.9])
def test_a_hook_that_nobody_notices_is_left_alone(seconds):
    assert roots(trained(seconds)) == []


def test_remedies_speak_the_language_of_transformers():
    (one,) = roots(trained(3.0, "Plots.on_epoch_end", Framework("transformers", what="train")))

    assert code_of(one).startswith("if round(state.epoch) %")


def slow(rule: str = "epoch-boundary-gap") -> list[Finding]:
    return [Finding("slow for another reason", [], Remedy("wait"), rule=rule, role="root", symptom="slow")]


def test_hooks_that_cost_nothing_are_cleared_by_name_with_what_the_model_has_itself():
    model = msgspec.structs.replace(FIT, hooks=["on_train_start"], empty=["validation_step"])

    hooks, itself = acquitted(Case(Evidence(Run("run"), recording=[trained(0.01, framework=model)])), slow())

    assert hooks == (
        "callbacks are not the cause: 2 callbacks (Plots, Mail) registered, 4 calls of hooks at the boundaries of "
        "epochs took 40 ms in all, 0.1 % of the run"
    )
    assert itself == (
        "the model Net: it has no hook of its own at the end of an epoch; validation_step does nothing; no call of "
        "torch.cuda.synchronize by the training"
    )


def test_hooks_that_cost_something_or_go_on_are_not_cleared():
    going = [Call(CALLBACK, "Plots.on_train_epoch_end", LINE, since=30.0)]

    assert acquitted(Case(Evidence(Run("run"), recording=[trained(3.0)])), slow()) == []
    assert acquitted(Case(Evidence(Run("run"), recording=[trained(0.01, calls=going)])), slow()) == []


def test_nobody_suspects_hooks_where_the_time_is_lost_in_the_steps():
    assert acquitted(Case(Evidence(Run("run"), recording=[trained(0.01)])), slow("dataloader-bound")) == []


def short(**facts) -> Process:
    known = {"announced": 187, "validates_after": 187, "validates": True, "delivered": 186, "epochs": 3, **facts}
    return trained(0.01, framework=msgspec.structs.replace(FIT, **known))


def test_epochs_that_fall_short_of_the_batch_at_which_they_validate_are_told():
    (one,) = roots(short(short=3, missed=3))

    assert one.rule == "validation-never-runs"
    assert one.cause == "Validation never runs: Lightning waits for batch 187, but an epoch has 186."
    assert "len() says 187 batches, the newest epoch yielded 186" in one.seen
    assert "3 of 3 epochs ended early" in one.seen
    assert one.alternatives[-1].code == ["Trainer(limit_train_batches=186)"]


def test_a_validation_that_is_only_sometimes_left_out_is_told_as_that():
    (one,) = roots(short(short=1, missed=1, validations=2))

    assert one.cause.startswith("Validation was skipped in 1 of 3 epochs: Lightning waits for batch 187")


def test_epochs_that_fall_short_and_validate_all_the_same_are_left_alone():
    assert roots(short(short=3, missed=0, validations=3)) == []


def polling(*calls: Call) -> Evidence:
    """A main thread that has slept again and again at one line of its own, while nothing else moved."""
    told = evidence("stuck-in-user-code", "found")
    change = msgspec.structs.replace
    asleep = {"syscall": "clock_nanosleep", "wait_channel": "hrtimer_nanosleep", "switches": 9, "awaits": None}
    seen = [
        change(one, tasks=[change(task, **asleep) if task.tid == one.pid else task for task in one.tasks])
        for one in told.processes or ()
    ]
    mains = [change(one, calls=list(calls)) if one.role == "main" else one for one in told.recording or ()]
    return change(told, processes=seen, recording=mains)


def test_sleeping_again_and_again_may_be_the_work_of_a_hook():
    hook = Call(CALLBACK, "Plots.on_train_epoch_end", LINE, Timing(1, 0.1, 0.1), since=1.0)

    assert [one.rule for one in report_on(polling()).findings] == ["stuck-in-user-code"]
    assert report_on(polling(hook)).findings == []


def test_a_number_of_batches_that_no_epoch_of_a_stream_comes_to_is_told_as_the_users_own():
    (one,) = roots(short(announced=None, validates_after=50, delivered=30, short=3, missed=3))

    assert one.cause.endswith("Lightning waits for batch 50 (val_check_interval), but an epoch has 30.")
    assert one.alternatives[0].code == ["Trainer(val_check_interval=50, check_val_every_n_epoch=None)"]


def test_a_hook_that_hung_is_named_after_the_run_was_stopped_and_killed_for_it():
    looked = evidence("callback-blocks-epoch-end", "found")
    (main,) = Case(looked).mains
    call = Call(CALLBACK, "Plots.on_train_epoch_end", LINE, Timing(1, 0.1, 0.1), at=1.0, last=5.0, since=5.0)
    task = Task(tid=main.pid, state="S", syscall="recvfrom", still=60.0)
    frames = [Frame("/code/helpers.py", 5, "push"), Frame("/code/train.py", 30, "Plots.on_train_epoch_end")]
    run = msgspec.structs.replace(looked.run, status=-9, pid=main.pid, host=main.node)
    stopped = Evidence(
        run,
        recording=[msgspec.structs.replace(main, calls=[call], alive=False, ended=None, ended_how="")],
        processes=[Seen(main.node, main.pid, 1, "main", state="S", tasks=[task], looked=1.0)],
        stacks=[Stack(main.pid, main.pid, frames=frames, before=frames)],
        stall=Stall(rank=None, pid=main.pid, since=5.0, seconds=60.0, doing="", usual=None, patience=60.0),
        looked_at=65.0,
        exits=[Exit(main.pid, -9, 80.0, "waited")],
    )
    report = report_on(stopped)

    assert report.findings[0].rule == "callback-blocks-epoch-end"
    assert "the callback Plots.on_train_epoch_end" in report.findings[0].cause
    assert {one.because_of for one in report.findings[1:]} <= {"callback-blocks-epoch-end"}
