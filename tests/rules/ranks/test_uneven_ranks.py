"""What is told of ranks that fall apart while the run still goes on, and what native calls say about waiting."""

from __future__ import annotations

import msgspec

from kept import evidence_of as evidence
from unstuck.analysis.case import Case
from unstuck.analysis.stacks import COLLECTIVE, TRAINING, doing
from unstuck.evidence.distributed import Collective, Phase, Span
from unstuck.evidence.live import Frame, Stack
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

BACKWARD = Frame("/v/site-packages/torch/autograd/graph.py", 979, "_engine_run_backward")
NATIVE = Frame("libtorch_cpu.so", 0, "c10d::Reducer::finalize_backward", native=True)


def found(rule, told):
    return judge_one(all_rules()[rule], Case(told)).findings


def changed(told, **fields):
    """The same ranks, each with these fields; a function is given the rank's process."""
    recording = [
        msgspec.structs.replace(
            one, **{name: value(one) if callable(value) else value for name, value in fields.items()}
        )
        if one.role == "main"
        else one
        for one in told.recording
    ]
    return msgspec.structs.replace(told, recording=recording)


def going_on(**fields):
    """Ranks with loaders of different lengths, in the middle of their first pass."""
    told = evidence("ddp-uneven-batches", "found")
    told = msgspec.structs.replace(told, stall=None, processes=None, stacks=None)

    def first_pass(process):
        (loader,) = process.loaders
        inside = {"ended": [], "now": "in the loop's body", "passes": 1, "pass_batches": 2, "batches": 2}
        return [msgspec.structs.replace(loader, **inside, optimizer_steps=1)]

    phases = [Phase("training", 0, 5.0, loader=1, number_of_pass=1, batches=2, steps=1)]
    settings = {"alive": True, "spans": [], "collectives": [], "loaders": first_pass, "phases": phases}
    return changed(told, **{**settings, **fields})


def test_different_lengths_are_told_before_they_matter():
    (finding,) = found("ddp-uneven-batches", going_on())

    assert (finding.symptom, finding.rank) == ("wrong", 1)
    assert "will get 5 batches" in finding.cause


def test_different_lengths_inside_of_join_are_well():
    assert found("ddp-uneven-batches", going_on(spans=[Span("Join", 4.0)])) == []


def test_different_lengths_are_well_once_a_pass_ended_and_the_run_went_on():
    again = [
        Phase("training", 0, 5.0, 6.0, loader=1, number_of_pass=1, batches=5, steps=5),
        Phase("training", 1, 6.5, loader=1, number_of_pass=2, batches=2, steps=1),
    ]

    def second_pass(process):
        return [msgspec.structs.replace(process.loaders[0], passes=2, now="in the loop's body", ended=[])]

    assert found("ddp-uneven-batches", going_on(loaders=second_pass, phases=again)) == []


def test_ranks_that_exchange_single_numbers_may_have_agreed_on_a_length():
    length = Collective(3, "all_reduce", 4.5, finished=True, sizes=[[1]], calls="wrapper")

    assert found("ddp-uneven-batches", going_on(collectives=[length])) == []


def skipping(calls_of_second):
    """Both ranks ended a pass of 15 batches; the second made one step fewer, and is in its next pass."""

    def phases(process):
        steps = 15 - process.rank
        return [
            Phase("training", 0, 5.0, 6.0, loader=1, number_of_pass=1, batches=15, steps=steps),
            Phase("training", 1, 6.1, loader=1, number_of_pass=2, batches=3, steps=2),
        ]

    def collectives(process):
        first = 20 if process.rank == 0 else calls_of_second
        return [Collective(first - 1, "all_reduce", 5.9, finished=True), Collective(first, "all_reduce", 6.2)]

    told = evidence("rank-local-skip-desync", "found")
    told = msgspec.structs.replace(told, stall=None, processes=None, stacks=None)
    return changed(told, alive=True, spans=[], phases=phases, collectives=collectives)


def test_a_step_that_one_rank_left_out_is_wrong_while_the_run_goes_on():
    (finding,) = found("rank-local-skip-desync", skipping(19))

    assert (finding.symptom, finding.rank) == ("wrong", 1)


def test_an_optimizer_step_left_out_after_its_backward_shifts_no_collective():
    assert found("rank-local-skip-desync", skipping(20)) == []


def test_a_thread_in_native_code_of_torch_distributed_waits_for_other_ranks():
    assert doing(Stack(1, 1, frames=[NATIVE, BACKWARD])) == COLLECTIVE


def test_a_thread_that_computes_gradients_does_not():
    kernel = Frame("libtorch_cpu.so", 0, "at::native::addmm_out_cpu", native=True)

    assert doing(Stack(1, 1, frames=[kernel, BACKWARD])) == TRAINING
    assert doing(Stack(1, 1, frames=[kernel, BACKWARD, NATIVE])) == TRAINING
