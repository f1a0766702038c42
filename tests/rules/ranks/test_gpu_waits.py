"""Ranks that wait for their GPU: they spin, and only torch's Flight Recorder tells whether they wait for each other.

Written by hand after public stacks and logs of CUDA and NCCL; no GPU was ever tried.
"""

from __future__ import annotations

import msgspec
import pytest

from unstuck.analysis.case import Case
from unstuck.analysis.rank_deaths import GAVE_UP, KILLED, PARTNER_GONE, TOLD_TO_GO, deaths
from unstuck.analysis.ranks import as_of, stand
from unstuck.analysis.stacks import COLLECTIVE, GPU, doing
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.distributed import Collective, Group, Phase
from unstuck.evidence.live import Frame, Rounds, Sampled, Seen, Stack, Stall, Task
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Process

TRAIN = "/project/train.py"
C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
ITEM = [
    Frame("libcuda.so.1", function="0x7f3a1c2b", native=True),
    Frame("libcudart.so.12", function="cudaStreamSynchronize", native=True),
    Frame("libtorch_cuda.so", function="at::native::_local_scalar_dense_cuda", native=True),
    Frame(TRAIN, 38, "train"),
]
COPY = [Frame("libc10_cuda.so", function="c10::cuda::memcpy_and_sync", native=True), Frame(TRAIN, 38, "train")]
FULL = [Frame("libcudart.so.12", function="cudaLaunchKernel_ptsz", native=True), Frame(TRAIN, 36, "train")]
BARRIER = [*ITEM[:3], Frame(C10D, 4800, "barrier"), Frame(TRAIN, 40, "train")]
BACKWARD = Place(TRAIN, 37, "train")


def rank(number, unfinished=None, **more):
    calls = [Collective(6, "all_reduce", 3.0, finished=True, where=BACKWARD, calls="backward")]
    calls += [] if unfinished is None else [unfinished]
    group = Group(1.0, 2.0, "nccl", number, 2, timeout=600.0)
    known = {"collectives": calls, "traced": 20.0, "last_sign": 4.0, "alive": True, "group": group} | more
    return Process("n", 100 + number, 10, "main", rank=number, world=2, **known)


def live(*ranks, frames=ITEM, rounds=None):
    """Each spins in the same stack."""
    seen, stacks = [], []
    for one in (0, 1):
        task = Task(100 + one, state="R", cpu=1.0)
        seen.append(
            Seen("n", 100 + one, 10, "main", rank=one, world=2, tasks=[task], looked=1.0, cpu=1.0, rounds=rounds)
        )
        stacks.append(Stack(100 + one, 100 + one, frames=frames, before=frames))
    stall = Stall(rank=0, pid=100, since=4.0, seconds=15.0) if ranks else None
    return Evidence(
        run=Run(id="r", command=["python", "train.py"]),
        recording=list(ranks) or None,
        processes=seen,
        stacks=stacks,
        stall=stall,
        looked_at=19.0,
    )


@pytest.mark.parametrize("frames", [ITEM, COPY, FULL], ids=["synchronises", "copies", "has enqueued too much"])
def test_a_thread_in_a_call_of_cudas_waits_for_the_gpu(frames):
    assert doing(Stack(1, 1, frames=frames)) == GPU


def test_a_barrier_is_a_collective_also_where_the_thread_spins_in_it():
    assert doing(Stack(1, 1, frames=BARRIER)) == COLLECTIVE


def test_what_was_enqueued_first_and_is_not_finished_is_what_a_rank_waits_in():
    waits = Collective(7, "all_reduce", 3.5, where=BACKWARD, calls="backward")

    first, second = stand(Case(live(rank(0, waits), rank(1))))

    assert (first.call, first.where) == ("backward", BACKWARD)
    assert not second.waits  # all that it enqueued is finished: it waits for kernels of its own


def test_ranks_whose_calls_differ_are_stuck_though_both_compute():
    waits = Collective(7, "all_reduce", 3.5, where=BACKWARD, calls="backward")
    other = Collective(7, "barrier", 3.6, where=Place(TRAIN, 40, "train"), calls="barrier")

    report = report_on(live(rank(0, waits), rank(1, other)))

    assert report.state == "stuck"


def test_a_stall_in_which_the_gpu_is_waited_for_is_not_healthy():
    report = report_on(live(rank(0), rank(1)))

    assert report.state == "waiting"
    assert "waiting for the GPU" in report.unsettled[0]


def sampled(*lines):
    samples = [Sampled(100, 100, 5, frames=[Frame(TRAIN, line, "train")]) for line in lines]
    return Rounds(seconds=11.0, cpu=11.0, samples=samples)


def test_from_outside_who_never_leaves_the_line_is_waiting():
    assert report_on(live(rounds=sampled(38))).state == "waiting"


def test_from_outside_who_comes_round_is_healthy():
    assert report_on(live(rounds=sampled(38, 36))).state == "healthy"


def ahead():
    """Two batches, and a pass, further than the call of 5.0 s that its GPU is in."""
    arrived = [(1, 4.0), (1, 4.9), (1, 5.1), (2, 6.1)]
    loader = Loader(1, passes=2, batches=4, pass_batches=1, optimizer_steps=4, now_since=6.1, arrived=arrived)
    phases = [
        Phase("training", 0, 3.0, 6.0, loader=1, number_of_pass=1, batches=3, steps=3),
        Phase("training", 1, 6.0, loader=1, number_of_pass=2, batches=1, steps=1),
    ]
    return rank(0, loaders=[loader], phases=phases, optimizer_steps=4, last_step=6.2, last_sign=6.2)


def test_a_rank_that_ran_ahead_is_seen_as_it_was_when_it_made_the_call():
    then = as_of(ahead(), 5.0)

    (loader,) = then.loaders
    assert (loader.passes, loader.batches, loader.pass_batches) == (1, 2, 2)
    assert loader.now == "in the loop's body"
    assert [(one.number, one.ended, one.batches) for one in then.phases] == [(0, None, 2)]
    assert then.optimizer_steps == 1


def test_a_pass_that_ended_a_moment_after_the_call_was_going_on():
    then = as_of(ahead(), 5.9995)

    assert then.loaders[0].now == "in the loop's body"
    assert then.phases[-1].ended is None


def test_a_loader_that_had_no_more_before_the_call_is_through_while_the_trainers_epoch_goes_on():
    """Lightning validates inside of its training epoch."""
    loader = Loader(1, passes=1, batches=3, pass_batches=3, now="between passes", now_since=4.9, arrived=[(1, 4.8)])
    epoch = Phase("training", 0, 3.0, loader=1, number_of_pass=1, batches=3, steps=3)

    then = as_of(rank(0, loaders=[loader], phases=[epoch], last_step=4.85), 5.0)

    assert then.loaders == [loader]


def test_a_rank_that_made_no_step_since_has_all_of_its_steps():
    waits = msgspec.structs.replace(ahead(), last_step=4.95)

    then = as_of(waits, 5.0)

    assert (then.optimizer_steps, then.phases[0].steps) == (4, 3)


def died(status, *, at, first=None, **more):
    """Rank 0 ended so; rank 1 was told to go afterwards, or `first`, before."""
    exits = [Exit(100, status, at, "reaped", 10)]
    exits += [Exit(101, -15, at + 0.2, "reaped", 10)] if first is None else [Exit(101, first, at - 5.0, "reaped", 10)]
    ranks = [rank(0, alive=False, **more), rank(1, alive=False)]
    ended = deaths(Case(Evidence(run=Run(id="r", status=1), recording=ranks, exits=exits)))
    return {one.process.rank: one.how for one in ended}


def test_an_abort_by_a_native_thread_after_the_time_out_is_nccls_watchdog_that_gave_up():
    assert died(-6, at=604.5) == {0: GAVE_UP, 1: TOLD_TO_GO}


@pytest.mark.parametrize(
    "other",
    [
        {"status": -6, "at": 60.0},
        {"status": -11, "at": 604.5},
        {"status": -6, "at": 604.5, "crash": [BACKWARD]},
        {"status": -6, "at": 604.5, "group": Group(1.0, 2.0, "gloo", 0, 2, timeout=600.0)},
    ],
    ids=["before the time-out", "another signal", "by Python's own thread", "without NCCL"],
)
def test_other_ends_are_its_own(other):
    assert died(**other)[0] == KILLED


def test_a_watchdog_that_aborts_early_after_another_rank_died_has_lost_its_partner():
    assert died(-6, at=60.0, first=-9) == {0: PARTNER_GONE, 1: KILLED}
