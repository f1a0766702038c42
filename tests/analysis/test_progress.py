"""Whose bytes and CPU time are progress: of who has to move, not of who only reports on it."""

from __future__ import annotations

import msgspec
import pytest

from unstuck.analysis.case import Case
from unstuck.analysis.progress import standstills
from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Run
from unstuck.evidence.live import Awaited, Frame, Holder, Sampled, Seen, Stack, Stall, Task
from unstuck.evidence.process import Process

PID, LOOKED = 100, 1.0
USERS = Frame("/project/train.py", 12, "loop")
IN_QUEUE = [Frame("/usr/lib/python3.11/queue.py", 171, "get"), USERS]
WANDB = [Frame("/venv/lib/python3.11/site-packages/wandb/sdk/service.py", 40, "run")]
THREAD = [Frame("/project/train.py", 90, "work")]
FUTEX = Task(tid=PID, state="S", syscall="futex", wait_channel="futex_do_wait", still=40.0)


def evidence(main=FUTEX, beside=(), frames=IN_QUEUE, processes=(), **about):
    """A main process that nothing is recorded of, whose main thread does nothing; `beside`: its other threads."""
    tasks = [main, *(task for task, _ in beside)]
    seen = Seen("here", PID, 1, "main", state=main.state, tasks=tasks, looked=LOOKED, **about)
    stacks = [Stack(PID, PID, frames=frames, before=frames)]
    stacks += [Stack(PID, task.tid, frames=calls, before=calls) for task, calls in beside if calls]
    run = Run(id="x", command=["python", "train.py"], started=0.0)
    return Evidence(run=run, processes=[seen, *processes], stacks=stacks)


def task(tid=101, **about):
    return Task(tid=tid, **({"state": "S", "syscall": "epoll_wait"} | about))


def asked(seconds):
    """Its main thread waits for a server's answer."""
    socket = Awaited("socket", "tcp 10.0.0.1:4000 -> 10.0.0.2:8000 (ESTABLISHED)", 7)
    return evidence(Task(tid=PID, state="S", syscall="recvfrom", awaits=socket, still=seconds), frames=[USERS])


def child(role, command, *tasks, **about):
    return Seen("here", 200, PID, role, command=command, tasks=list(tasks), looked=LOOKED, **about)


REPORTERS = {
    "wandb's service sends": [(task(written=500, read=300), WANDB)],
    "a heartbeat writes and sleeps": [(task(syscall="clock_nanosleep", written=20), THREAD)],
    "a metrics thread waits for its next turn": [(task(syscall="futex", limited=True, written=900), THREAD)],
    "a metrics thread computes a little at every turn": [(task(syscall="clock_nanosleep", cpu=0.12), THREAD)],
    "a metrics thread computes at this moment": [(task(state="R", syscall="", cpu=0.12, ticked=True), THREAD)],
    "a progress bar is drawn": [
        (task(syscall="futex", limited=True, cpu=0.2, written=4000), [Frame("/x/rich/live.py", 50, "run"), *THREAD])
    ],
    "a native thread wakes up and sleeps": [(task(switches=30, read=8), [])],
    "a pin-memory thread polls": [(task(switches=9), [Frame("/x/pin_memory.py", 30, "_pin_memory_loop")])],
}
HELPERS = {
    "a thread computes": [(task(state="R", syscall="", cpu=0.4), THREAD)],
    "a thread reads from a server": [(task(read=4000), THREAD)],
    "a thread computes, between waits of its own": [(task(syscall="futex", limited=True, cpu=0.7), THREAD)],
    "a native thread computes": [(task(state="R", syscall="", cpu=0.9), [])],
}


@pytest.mark.parametrize("beside", REPORTERS.values(), ids=REPORTERS)
def test_who_only_reports_on_a_hung_training_does_not_make_it_healthy(beside):
    seen = evidence(beside=beside)

    assert [one.seconds for one in standstills(Case(seen))] == [40.0]
    assert report_on(seen).state in ("stuck", "unknown")


@pytest.mark.parametrize("beside", HELPERS.values(), ids=HELPERS)
def test_a_thread_that_may_have_the_answer_and_works_is_progress(beside):
    seen = evidence(beside=beside)

    assert standstills(Case(seen)) == []
    assert report_on(seen).state == "healthy"


def test_a_loggers_own_process_is_no_progress_but_a_child_that_computes_is():
    core = child(
        "helper", ["/venv/lib/python3.11/site-packages/wandb/bin/wandb-core"], task(tid=200, read=9000), cpu=0.5
    )
    pool = child("child", ["python"], task(tid=200, state="R", syscall="", cpu=0.5), cpu=0.5)

    assert standstills(Case(evidence(processes=[core])))
    assert not standstills(Case(evidence(processes=[pool])))


def test_a_command_at_the_other_end_of_a_pipe_counts_if_it_moves():
    def piped(moving):
        ends = Awaited("pipe", "pipe:[1]", 5, [Holder(300, "curl", moving=moving)])
        return Task(tid=PID, state="S", syscall="read", awaits=ends, still=40.0)

    assert standstills(Case(evidence(piped(moving=False))))
    assert not standstills(Case(evidence(piped(moving=True))))


def test_a_wait_for_a_server_is_told_as_waiting_and_what_would_settle_it():
    socket = Awaited("socket", "tcp 10.0.0.1:4000 -> 10.0.0.2:8000 (ESTABLISHED)", 7)

    report = report_on(
        evidence(Task(tid=PID, state="S", syscall="recvfrom", awaits=socket, still=40.0), frames=[USERS])
    )

    assert (report.state, report.findings) == ("waiting", [])
    assert "no progress for 40 s at train.py:12 (loop): blocked in recvfrom" in report.unsettled[0]
    assert report.unsettled[-1].startswith("To settle it: see whether that server answers")


def test_a_server_that_has_not_answered_for_a_minute_is_a_finding_that_stops_nothing():
    socket = Awaited("socket", "tcp 10.0.0.1:4000 -> 10.0.0.2:8000 (ESTABLISHED)", 7)

    report = report_on(
        evidence(Task(tid=PID, state="S", syscall="recvfrom", awaits=socket, still=70.0), frames=[USERS])
    )

    assert [(one.rule, one.symptom, one.certainty) for one in report.findings] == [
        ("stuck-in-user-code", "waiting", "likely")
    ]
    assert report.state == "waiting"


def test_a_thread_in_a_page_fault_gets_on_while_pages_come():
    fault = Task(tid=PID, state="D", wait_channel="folio_wait_bit_common", still=12.0)
    coming = Task(tid=PID, state="D", wait_channel="folio_wait_bit_common", still=12.0, page_ins=3)

    assert [one.awaits for one in standstills(Case(evidence(fault, frames=[USERS])))] == ["storage"]
    assert standstills(Case(evidence(coming, frames=[USERS]))) == []
    assert standstills(Case(evidence(fault, frames=[USERS], files_grown=1 << 20))) == []


def test_who_polls_for_something_makes_no_progress_however_often_it_wakes_up():
    polls = Task(tid=PID, state="S", syscall="clock_nanosleep", still=0.05, switches=100)
    seen = evidence(polls, frames=[USERS])
    long = Evidence(
        run=seen.run,
        processes=[Seen("here", PID, 1, "main", state="S", tasks=[polls], looked=11.0)],
        stacks=seen.stacks,
    )

    assert standstills(Case(seen)) == []  # it was looked at for a second
    assert [(one.seconds, one.awaits) for one in standstills(Case(long))] == [(11.0, "a sleep of its own to end")]


@pytest.mark.parametrize(
    ("frame", "still"),
    [
        (Frame("/venv/torch/utils/data/dataloader.py", 700, "_next_data"), False),
        (Frame("/venv/torch/distributed/distributed_c10d.py", 3000, "all_reduce"), False),
        (Frame("/project/train.py", 13, "loop"), True),
    ],
    ids=["draws a batch", "meets the other ranks", "only looks whether it came"],
)
def test_a_loop_that_sleeps_goes_on_if_it_was_met_at_another_part_of_a_training(frame, still):
    sleeping = Task(tid=PID, state="S", syscall="clock_nanosleep", switches=200, still=0.02)
    met = [Sampled(PID, PID, 490, frames=[USERS]), Sampled(PID, PID, 4, frames=[frame, USERS])]

    seen = evidence(sleeping, frames=[USERS], met=met)
    seen = msgspec.structs.replace(seen, processes=[msgspec.structs.replace(seen.processes[0], looked=11.5)])

    assert bool(standstills(Case(seen))) is still


def test_ranks_that_wait_in_a_collective_are_well_while_another_rank_works():
    barrier = [Frame("/x/torch/distributed/distributed_c10d.py", 4000, "barrier"), USERS]
    stuck = evidence(frames=barrier)
    other = Seen("here", 150, 1, "main", rank=1, state="R", tasks=[Task(tid=150, state="R", cpu=0.9)], looked=LOOKED)
    works = Stack(150, 150, frames=[USERS], before=[USERS])

    both = Evidence(run=stuck.run, processes=[*stuck.processes, other], stacks=[*stuck.stacks, works])

    assert standstills(Case(stuck))
    assert standstills(Case(both)) == []


def test_what_was_seen_before_a_run_ended_leaves_nothing_open():
    ended = msgspec.structs.replace(evidence(), run=Run(id="x", command=["python"], started=0.0, status=0))

    assert standstills(Case(ended)) == []


SLEEPS = {"a step that sleeps": (1.5, []), "a sleep that never ends": (70.0, ["stuck-in-user-code"])}


@pytest.mark.parametrize(("still", "roots"), SLEEPS.values(), ids=SLEEPS)
def test_a_recording_that_tells_no_progress_is_no_clock(still, roots):
    """A loop of one's own, without DataLoader and optimizer: for how long it stands only the kernel knows."""
    sleeps = Task(tid=PID, state="S", syscall="clock_nanosleep", still=still, switches=1)
    seen = evidence(sleeps, frames=[USERS])
    stall = Stall(None, PID, since=2.0, seconds=72.0, blind=True)
    nothing = Process("here", PID, 1, "main", alive=True)
    recorded = msgspec.structs.replace(seen, recording=[nothing], exits=[], stall=stall, looked_at=74.0)

    found = [one for one in report_on(recorded).findings if one.role == "root"]

    assert [one.rule for one in found] == roots
    assert [one.onset_s for one in found] == [4.0] * len(roots)


def test_a_rank_that_is_stopped_waits_for_nobody():
    barrier = [Frame("/x/torch/distributed/distributed_c10d.py", 4000, "barrier"), USERS]
    ranks = [
        Seen("here", 100 + rank, 1, "main", rank=rank, world=2, state=state, looked=LOOKED,
             tasks=[Task(tid=100 + rank, state=state, syscall="futex", wait_channel="futex_do_wait", still=40.0)])
        for rank, state in enumerate("ST")
    ]  # fmt: skip
    stacks = [Stack(100 + rank, 100 + rank, frames=barrier, before=barrier) for rank in range(2)]
    run = Run(id="x", command=["python", "train.py"], started=0.0)

    report = report_on(Evidence(run=run, processes=ranks, stacks=stacks))

    assert [(one.rule, one.rank) for one in report.findings if one.role == "root"] == [("worker-stopped", 1)]
