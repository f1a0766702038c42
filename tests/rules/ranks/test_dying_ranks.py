"""Ranks that end together: the first to die is the cause, and only what separates it from its look-alikes is said."""

from __future__ import annotations

import pytest

from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Exit, Run
from unstuck.evidence.basics import Place
from unstuck.evidence.distributed import Attempt, Collective, Group
from unstuck.evidence.live import Frame, Seen, Stack, Stall, Task
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Failure, Process

GLOO = "[/build/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1234."
LATE = "[/build/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation"
LINE = Place("/project/train.py", 31, "train")
C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
LAUNCHER = 10


def raised(kind, message="", at=5.0, where=LINE, causes=()):
    return Failure(how="uncaught", type=kind, message=message, at=at, frames=[where], causes=list(causes))


def rank(number, failure=None, *, world=3, **more):
    failures = [] if failure is None else [failure]
    return Process("n", 100 + number, LAUNCHER, "main", rank=number, world=world, failures=failures, **more)


def lost(number, at=5.1, **more):
    return rank(number, raised("RuntimeError", GLOO, at), **more)


def run_of(*processes, statuses=None, status=1, **more):
    """Who raised left with 1, unless it is said otherwise."""
    known = {one.rank: 1 for one in processes if one.failures and one.rank is not None} | (statuses or {})
    exits = [Exit(100 + number, code, 5.3, "reaped", LAUNCHER) for number, code in known.items()]
    return Evidence(run=Run(id="r", status=status), recording=list(processes), exits=exits, **more)


def found(evidence):
    """The root's rule and rank."""
    roots = [one for one in report_on(evidence).findings if one.role == "root"]
    return [(one.rule, one.rank) for one in roots]


def test_a_signal_is_the_cause_though_the_others_raised_before_its_status_was_seen():
    evidence = run_of(lost(0), rank(1), lost(2), statuses={1: -9})
    assert found(evidence) == [("rank-crash-cascade", 1)]


def test_an_exit_code_is_the_cause():
    assert found(run_of(lost(0), rank(1), lost(2), statuses={1: 3})) == [("rank-crash-cascade", 1)]


def test_an_echo_is_one_also_where_the_users_code_has_wrapped_it():
    wrapped = raised("StepFailed", "in step 7", 5.01, causes=[("RuntimeError", GLOO)])
    evidence = run_of(rank(0, wrapped), rank(1), rank(2, wrapped), statuses={1: -11})
    assert found(evidence) == [("rank-crash-cascade", 1)]


def test_a_connection_of_the_users_own_is_no_echo():
    own = raised("ConnectionResetError", "[Errno 104] Connection reset by peer")
    evidence = run_of(lost(0), rank(1, own), lost(2))
    assert found(evidence) == [("rank-crash-cascade", 1)]


def test_where_all_raise_by_themselves_nobody_died_of_another():
    own = raised("FileNotFoundError", "config.yaml")
    evidence = run_of(rank(0, own), rank(1, own), rank(2, own))
    assert [rule for rule, _ in found(evidence)] == ["uncaught-exception"]


def test_a_rank_that_finished_before_the_others_lost_it_has_not_died():
    rules = [one.rule for one in report_on(run_of(lost(0), rank(1), lost(2), statuses={1: 0})).findings]
    assert "rank-crash-cascade" not in rules


def test_a_signal_to_the_whole_run_is_no_rank_dying_first():
    told = {0: -15, 1: -15, 2: -15}
    whole = [("stopped-from-outside", None)]
    assert found(run_of(rank(0), rank(1), rank(2), statuses=told, status=-15)) == whole
    assert found(run_of(lost(0), rank(1), rank(2), statuses={**told, 0: 1}, status=-15)) == whole


def test_one_rank_that_was_told_to_go_alone_is_the_cause_where_its_launcher_says_so():
    ranks = (lost(0), rank(1), lost(2))
    words = raised("ProcessExitedException", "process 1 terminated with signal SIGTERM")
    launcher = Process("n", LAUNCHER, 1, "launcher", failures=[words])
    assert found(run_of(*ranks, launcher, statuses={1: -15})) == [("rank-stopped", 1)]
    rules = [one.rule for one in report_on(run_of(*ranks, statuses={1: -15})).findings]
    assert "rank-crash-cascade" not in rules, "its launcher may have told it to go for another's sake"
    assert "rank-stopped" not in rules


def test_what_explains_the_first_death_is_the_cause_and_the_cascade_its_consequence():
    said = "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):"
    inner = Failure(how="fetch", type="ValueError", message="bad", at=4.9, frames=[LINE], index=7)
    worker = Process("n", 200, 101, "worker", rank=1, worker=0, failures=[inner])
    main = rank(1, raised("ValueError", said), loaders=[Loader(1, num_workers=1, pids=[200])])
    findings = report_on(run_of(lost(0), main, worker, statuses={1: 1})).findings
    assert [(one.rule, one.rank) for one in findings if one.role == "root"] == [("worker-python-exception", 1)]
    consequences = {one.rule: (one.because_of, one.rank) for one in findings if one.role == "consequence"}
    assert consequences["rank-crash-cascade"] == ("worker-python-exception", 1)


def test_a_process_that_died_before_it_had_a_number_is_the_rank_that_is_missing():
    alone = raised("DistStoreError", "Timed out after 9 seconds waiting for clients. 1/2 clients joined.", 14.0)
    early = Process("n", 101, LAUNCHER, "other", failures=[raised("ValueError", "no such file")])
    evidence = run_of(rank(0, alone, world=2, group=Group(5.0, rank=0, world=2, failed=True)), early)
    assert found(evidence) == [("rank-crash-cascade", 1)]


def waited(*others, **more):
    gave_up = rank(0, raised("RuntimeError", LATE, 20.0), collectives=[Collective(7, "all_reduce", 12.0)], traced=20.0)
    return run_of(gave_up, *others, **more)


def test_the_only_rank_that_did_not_give_up_is_who_did_not_come():
    evidence = waited(rank(1, raised("RuntimeError", LATE, 20.1)), rank(2), statuses={2: -15})
    assert found(evidence) == [("collective-timeout", 2)]


def test_a_rank_that_came_too_late_is_told_by_its_flight_recorder():
    in_time = lost(1, 20.1, collectives=[Collective(7, "all_reduce", 12.1)])
    late = lost(2, 25.0, collectives=[Collective(7, "all_reduce", 25.0)])
    assert found(waited(in_time, late)) == [("collective-timeout", 2)]


def test_where_it_does_not_show_who_did_not_come_nobody_is_named():
    assert found(waited(rank(1), rank(2), statuses={1: -15, 2: -15})) == [("collective-timeout", None)]


def test_a_rank_that_had_died_before_is_the_cause_of_the_time_out():
    evidence = waited(rank(1, raised("KeyError", "3")), lost(2, 20.1))
    assert found(evidence) == [("rank-crash-cascade", 1)]


def aborted(backend="gloo", **more):
    calls = [LINE, Place(C10D, 3000, "all_gather")]
    group = Group(1.0, 2.0, backend, 1, 3)
    return rank(1, group=group, **({"crash_beside": calls} | more))


def test_an_abort_by_a_thread_of_gloo_inside_a_collective_is_a_mismatch_of_sizes():
    assert found(run_of(lost(0), aborted(), lost(2), statuses={1: -6})) == [("collective-shape-mismatch", 1)]


@pytest.mark.parametrize(
    "other",
    [aborted("nccl"), aborted(crash_beside=[LINE]), aborted(crash_beside=[], crash=[LINE])],
    ids=["nccl", "outside of a collective", "by Python's own thread"],
)
def test_another_abort_is_none(other):
    assert found(run_of(lost(0), other, lost(2), statuses={1: -6})) == [("rank-crash-cascade", 1)]


def stuck_with(*sizes_of_ranks):
    """Each rank's newest collectives; all wait at the same line."""
    ranks, seen, stacks = [], [], []
    frames = [Frame(C10D, 3000, "all_reduce"), Frame(LINE.file, LINE.line, LINE.function)]
    for number, sizes in enumerate(sizes_of_ranks):
        calls = [
            Collective(sequence, "all_reduce", 3.0, finished=sequence < len(sizes), sizes=[[size]])
            for sequence, size in enumerate(sizes, 1)
        ]
        ranks.append(rank(number, alive=True, collectives=calls, traced=20.0, world=len(sizes_of_ranks)))
        pid = 100 + number
        task = Task(pid, state="S", wait_channel="futex_do_wait")
        seen.append(Seen("n", pid, LAUNCHER, "main", rank=number, world=len(sizes_of_ranks), tasks=[task], looked=1.0))
        stacks.append(Stack(pid, pid, frames=frames, before=frames))
    stall = Stall(rank=0, pid=100, since=4.0, seconds=15.0)
    return run_of(*ranks, processes=seen, stacks=stacks, stall=stall, looked_at=20.0, status=None)


def test_ranks_that_hang_in_the_same_call_with_different_sizes_are_told_theirs():
    evidence = stuck_with([8, 8, 8], [8, 8, 6])
    report = report_on(evidence)
    assert found(evidence) == [("collective-shape-mismatch", 1)]
    assert report.state == "stuck"
    assert "rank 0 had [8], rank 1 had [6]" in report.findings[0].cause


def test_sizes_that_a_loop_has_called_before_are_a_rank_out_of_step():
    evidence = stuck_with([8, 2, 8, 2, 8], [8, 2, 8, 2, 2])
    assert "collective-shape-mismatch" not in [one.rule for one in report_on(evidence).findings]


def meeting(*others, world="2", host='"127.0.0.1"'):
    frames = [
        Frame("torch/distributed/rendezvous.py", 199, "_create_c10d_store", locals={"hostname": host, "port": "29500"}),
        Frame(C10D, 1892, "init_process_group", locals={"rank": "0", "world_size": world}),
        Frame(LINE.file, LINE.line, LINE.function),
    ]
    task = Task(100, state="S", wait_channel="hrtimer_nanosleep", still=30.0)
    waits = Seen("n", 100, LAUNCHER, "main", tasks=[task], looked=10.0)
    stacks = [Stack(100, 100, frames=frames, before=frames)]
    return Evidence(run=Run(id="r"), processes=[waits, *others], stacks=stacks)


def test_a_rank_that_waits_for_one_that_was_never_started_is_seen_from_outside():
    assert found(meeting()) == [("rendezvous-peer-missing", 1)]


def test_a_peer_that_is_still_importing_is_not_missing():
    assert found(meeting(Seen("n", 101, LAUNCHER, "main", cpu=9.0, looked=10.0))) == []


def test_ranks_of_other_machines_are_given_a_minute():
    assert found(meeting(host='"node7"')) == []


def test_ranks_that_were_told_to_meet_at_different_places_never_do():
    alone = raised("DistStoreError", "Timed out after 9 seconds waiting for clients. 1/2 clients joined.", 14.0)
    groups = [Group(5.0, 14.0, "gloo", number, 2, address=f"host:{2950 + number}", failed=True) for number in (0, 1)]
    evidence = run_of(*(rank(number, alone, world=2, group=group) for number, group in enumerate(groups)))
    (first, *_) = report_on(evidence).findings
    assert first.rule == "rendezvous-peer-missing"
    assert "rank 0 at host:2950; rank 1 at host:2951" in first.cause


def attempts(*lines):
    return [
        Attempt(number, 1.0, 5.0, 1, 0, 90 + number, 1, "ValueError", "bad", Place("/project/train.py", line, "train"))
        for number, line in enumerate(lines)
    ]


def test_attempts_that_died_alike_are_a_loop():
    evidence = run_of(rank(0, raised("ValueError", "bad"), world=1), attempts=attempts(31, 31))
    assert found(evidence) == [("restart-loop", 0)]


@pytest.mark.parametrize("lines", [(31, 12), (12,), ()])
def test_attempts_that_died_in_different_ways_are_none(lines):
    evidence = run_of(rank(0, raised("ValueError", "bad"), world=1), attempts=attempts(*lines))
    assert found(evidence) == [("uncaught-exception", 0)]


def test_ranks_that_cannot_meet_after_a_restart_are_told_what_the_first_attempt_died_of():
    stale = "Gloo connectFullMesh failed with [/build/gloo/pair.cc:152] timed out connecting: Connection refused"
    last = rank(0, raised("RuntimeError", stale, where=Place("/project/train.py", 5, "main")), world=2)
    (first, *_) = report_on(run_of(last, rank(1, world=2), statuses={1: -15}, attempts=attempts(31))).findings
    assert (first.rule, first.where.line) == ("restart-loop", 31)
    assert "1 with ValueError (train.py:31), and in 1 attempt the ranks could not connect" in first.cause
