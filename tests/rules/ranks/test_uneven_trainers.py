"""Uneven data where a trainer runs the loop: by what is recorded, and by stacks alone; on evidence that is made up."""

from __future__ import annotations

import pytest

from unstuck.analysis.case import Case
from unstuck.analysis.side_work import open_hook
from unstuck.evidence import Evidence, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.distributed import Collective, Phase, Span
from unstuck.evidence.frameworks import Framework
from unstuck.evidence.live import Frame, Seen, Stack, Stall, Task
from unstuck.evidence.loader import CALLBACK, Call, Loader, Pass
from unstuck.evidence.process import Process
from unstuck.probes import roles
from unstuck.rules.engine import judge, rank_findings

FIT = Place("/code/train.py", 51, "<module>")
V = "/v/site-packages"
WAIT = [
    Frame("libtorch_cpu.so", 0, "c10d::Work::wait", native=True),
    Frame(f"{V}/torch/distributed/distributed_c10d.py", 9, "barrier"),
]
LIGHTNING = [Frame(f"{V}/lightning/pytorch/trainer/trainer.py", 584, "Trainer.fit"), Frame(FIT.file, 51, "<module>")]
EPOCH, FITS, VALIDATES = (
    f"{V}/lightning/pytorch/loops/{name}.py" for name in ("training_epoch_loop", "fit_loop", "evaluation_loop")
)
IN_BATCH = [Frame(EPOCH, 300, "_TrainingEpochLoop.advance"), Frame(FITS, 469, "_FitLoop.advance"), *LIGHTNING]
AT_END = [
    Frame(f"{V}/lightning/pytorch/callbacks/model_checkpoint.py", 493, "ModelCheckpoint.on_train_epoch_end"),
    Frame(FITS, 484, "_FitLoop.on_advance_end"),
    *LIGHTNING,
]
KEEP_BEST = [Frame("/code/train.py", 20, "KeepBest.on_train_epoch_end"), *AT_END[1:]]


def in_validation(batch):
    step = Frame(VALIDATES, 430, "_EvaluationLoop._evaluation_step", locals={"batch_idx": str(batch)})
    return [step, Frame(VALIDATES, 146, "_EvaluationLoop.run"), Frame(EPOCH, 406, "_TrainingEpochLoop.on_advance_end"),
            Frame(FITS, 469, "_FitLoop.advance"), *LIGHTNING]  # fmt: skip


def of_transformers(epoch, step, *inner):
    trainer = f"{V}/transformers/trainer.py"
    counted = Frame(trainer, 1909, "Trainer._run_epoch", locals={"epoch": str(epoch), "step": str(step)})
    return [*(Frame(trainer, 2000, f"Trainer.{name}") for name in inner), counted, Frame(trainer, 1, "Trainer.train")]


def seen(rank, calls, still=20.0):
    pid = 100 + rank
    frames = [*WAIT, *calls]
    task = Task(pid, "python", "S", syscall="futex", still=still)
    process = Seen("node", pid, 1, "main", rank=rank, world=2, state="S", tasks=[task], looked=1.0)
    return process, Stack(pid, pid, "MainThread", frames, frames)


def looked_at(*calls, **more):
    """`why PID` of ranks that nobody prepared."""
    both = [seen(rank, each, **more) for rank, each in enumerate(calls)]
    return Evidence(Run("run"), processes=[one for one, _ in both], stacks=[stack for _, stack in both])


def roots(told):
    return [one for one in rank_findings(judge(Case(told))) if one.role == "root"]


def test_stacks_tell_a_rank_that_is_through_its_epoch_from_one_in_a_batch():
    (one,) = roots(looked_at(IN_BATCH, AT_END))

    assert (one.rule, one.certainty, one.symptom, one.rank) == ("ddp-uneven-batches", "likely", "stuck", 1)
    assert "rank 1 finished the epoch and waits in ModelCheckpoint.on_train_epoch_end" in one.cause


def test_a_collective_in_a_hook_of_the_users_own_may_be_under_a_condition():
    (one,) = roots(looked_at(IN_BATCH, KEEP_BEST))

    assert one.rule == "collectives-out-of-step"


def test_nothing_is_said_of_ranks_that_have_just_come_there():
    assert roots(looked_at(IN_BATCH, AT_END, still=2.0)) == []


@pytest.mark.parametrize(("batch", "rule"), [(0, "ddp-uneven-batches"), (3, "collectives-out-of-step")])
def test_in_a_later_batch_of_a_validation_that_may_be_what_is_uneven(batch, rule):
    (one,) = roots(looked_at(IN_BATCH, in_validation(batch)))

    assert one.rule == rule


def test_a_rank_that_has_left_the_trainer_is_through():
    (one,) = roots(looked_at(IN_BATCH, [Frame("/code/train.py", 52, "<module>")]))

    assert one.rule == "ddp-uneven-batches"
    assert "waits in barrier at train.py:52" in one.cause


@pytest.mark.parametrize(
    ("epoch", "step", "rule"),
    [(0, 9, "ddp-uneven-batches"), (0, 8, "collectives-out-of-step"), (1, 0, "collectives-out-of-step")],
)
def test_transformers_counts_who_has_come_further(epoch, step, rule):
    """In a later epoch the other rank has left something out, rather than had more."""
    saves = of_transformers(0, 8, "_save_checkpoint", "_maybe_log_save_evaluate")
    (one,) = roots(looked_at(of_transformers(epoch, step, "training_step"), saves))

    assert one.rule == rule


def calls_of_fit(waits_in):
    """Before, in and after its epoch a trainer calls all at one line."""
    called = [("broadcast", 5.0), ("barrier", 5.5), ("all_reduce", 6.1), ("all_reduce", 6.3), (waits_in, 6.5)]
    return [
        Collective(number, name, at, where=FIT, calls="fit", finished=at < 6.5)
        for number, (name, at) in enumerate(called, 1)
    ]


def recorded(rank, batches, now, waits_in, **more):
    """`now`: between passes, or in the loop's body."""
    ended = [Pass(1, batches, 6.4)] if now == "between passes" else []
    settings = {"passes": 1, "batches": batches, "pass_batches": batches, "now": now, "now_since": 6.4, "ended": ended}
    loader = Loader(1, dataset="Rows", created=FIT, **{**settings, "optimizer_steps": 2, **more.pop("loader", {})})
    phase = Phase("training", 0, 6.0, None, 1, 1, batches, 2, told=True)
    told = {
        "collectives": calls_of_fit(waits_in), "traced": 7.0, "phases": [phase], "loaders": [loader],
        "optimizer_steps": 2, "last_sign": 6.5, "alive": True, "frameworks": [Framework("Lightning", what="fit")],
        "spans": [Span("barrier", 5.5, 5.6, where=FIT)],
    }  # fmt: skip
    return Process(node="node", pid=100 + rank, parent=1, role="main", rank=rank, world=2, **{**told, **more})


def stalled(first, second, calls=(IN_BATCH, AT_END)):
    both = [seen(rank, each) for rank, each in enumerate(calls)]
    return Evidence(
        Run("run"), recording=[first, second], processes=[one for one, _ in both], stacks=[stack for _, stack in both],
        stall=Stall(0, 100, 6.5, 12.0), looked_at=18.5,
    )  # fmt: skip


def test_a_loader_that_has_ended_tells_it_though_all_lines_are_the_trainers():
    hook = Call(CALLBACK, "ModelCheckpoint.on_train_epoch_end", since=6.45, at=6.45)
    told = stalled(
        recorded(0, 3, "in the loop's body", "broadcast"), recorded(1, 2, "between passes", "barrier", calls=[hook])
    )

    (one,) = roots(told)

    assert (one.rule, one.certainty, one.rank) == ("ddp-uneven-batches", "certain", 1)
    assert "rank 1 ran out of data after 2 batches" in one.cause
    assert "rank 1 went on to barrier at train.py:51, in ModelCheckpoint.on_train_epoch_end" in one.seen
    code = [line for remedy in (one.remedy, *one.alternatives) for line in remedy.code]
    assert not any("Join" in line for line in code)
    assert "Trainer(limit_train_batches=2)" in code


@pytest.mark.parametrize("length", [2, 4])
def test_a_trainer_that_asks_the_others_before_it_asks_for_a_batch_shows_by_its_length_that_there_are_more(length):
    longer = recorded(0, 2, "in the loop's body", "broadcast", loader={"length": length})
    told = stalled(longer, recorded(1, 2, "between passes", "barrier", loader={"length": 2}))

    assert ("ddp-uneven-batches" in [one.rule for one in roots(told)]) == (length > 2)


def test_a_hook_inside_of_a_hook_is_the_one_that_is_named():
    calls = [
        Call(CALLBACK, "Mail.on_train_epoch_end", since=4.0),
        Call(CALLBACK, "Keep.on_save_checkpoint", since=5.0),
        Call(CALLBACK, "Old.on_train_epoch_end", last=3.0),
    ]
    main = Process(node="node", pid=7, parent=1, role="main", calls=calls)
    outer, inner = (Frame("/code/train.py", 9, name) for name in ("Mail.on_train_epoch_end", "Keep.on_save_checkpoint"))

    assert open_hook(main, [inner, outer]).name == "Keep.on_save_checkpoint"
    assert open_hook(main, [outer]).name == "Mail.on_train_epoch_end"
    assert open_hook(main, [Frame("/code/train.py", 9, "<lambda>")]).name == "Keep.on_save_checkpoint"


def of_lightning(pid, parent):
    """As it is seen: with the threads of its process group, started by the same command."""
    tasks = [Task(pid, "python"), Task(pid + 50, "pt_gloo_runloop")]
    return Seen("node", pid, parent, "", command=["python", "train.py"], tasks=tasks)


def test_the_first_rank_of_lightning_has_started_the_others_and_is_told_nothing(monkeypatch):
    told = {201: {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2"}}
    monkeypatch.setattr(roles.kernel, "environment", lambda pid: told.get(pid, {}))
    monkeypatch.setattr(roles.processes, "is_python", lambda _: True)
    monkeypatch.setattr(roles.processes, "is_launcher", lambda _: False)

    found = roles.assign([of_lightning(200, 1), of_lightning(201, 200)], [], [])

    assert [(one.role, one.rank, one.world) for one in found] == [("main", 0, 2), ("main", 1, 2)]
