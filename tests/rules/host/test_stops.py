"""The end that came from outside: what is a stop, what only looks like one, and what the last checkpoint covers."""

from __future__ import annotations

import pytest

from unstuck.diagnose import report_on
from unstuck.evidence import Evidence, Exit, Host, Run, Told
from unstuck.evidence.basics import Place, Timing
from unstuck.evidence.live import Stall
from unstuck.evidence.loader import Loader
from unstuck.evidence.process import Failure, Process, Saved

LINE = Place("/project/train.py", 31, "train")
TERM, INT, USR1, HUP = 15, 2, 10, 1
BODY = "in the loop's body"


def main_process(last_step=9.9, *, now=BODY, failure=None, saved=(), **more):
    loader = Loader(
        1, batches=90, optimizer_steps=90, passes=1, now=now, now_since=last_step, bodies=Timing(90, 9.0, 0.2)
    )
    return Process(
        "n", 7, 1, "main", loaders=[loader], optimizer_steps=90, last_step=last_step,
        failures=[] if failure is None else [failure], saved=list(saved), **more,
    )  # fmt: skip


def raised(kind, at, message=""):
    return Failure(how="uncaught", type=kind, message=message, at=at, frames=[LINE])


def ended(status, *processes, signals=(), ended_at=10.0, stall=None, exits=None, **run):
    host = Host(node="n", signals=list(signals), watcher_ended=True)
    recording = list(processes) if processes else [main_process()]
    known = [Exit(7, status, ended_at, "waited")] if exits is None and status is not None else exits
    about = Run(id="r", status=status, pid=7, host="n", started=1000.0, **run)
    return Evidence(run=about, recording=recording, exits=known, host=[host], stall=stall)


def roots(evidence):
    return [one.rule for one in report_on(evidence).findings if one.role == "root"]


def state(evidence):
    return report_on(evidence).state


def stop(evidence):
    return next(one for one in report_on(evidence).findings if one.rule == "stopped-from-outside")


@pytest.mark.parametrize("number", [1, 2, 3, 10, 12, 14, 15, 24])
def test_a_signal_that_asks_a_process_to_go_is_a_stop_and_no_crash(number):
    assert state(ended(-number)) == "stopped"


@pytest.mark.parametrize("number", [4, 5, 6, 7, 8, 9, 11, 31])
def test_a_signal_of_a_crash_is_a_crash(number):
    assert (state(ended(-number)), roots(ended(-number))) == ("crashed", ["main-killed"])


def test_a_command_of_which_nothing_is_recorded_has_an_end_too():
    def plain(status):
        about = Run(id="r", status=status, pid=7, host="n", command=["/bin/sh", "-c", "x"])
        return Evidence(run=about, exits=[Exit(7, status, 2.0, "waited")], host=[Host(node="n", watcher_ended=True)])

    assert roots(plain(-9)) == ["main-killed"]
    assert roots(plain(3)) == ["exited-with-code"]
    assert roots(plain(139)) == ["exited-with-code"]
    assert roots(plain(-15)) == ["stopped-from-outside"]
    assert (roots(plain(143)), stop(plain(143)).certainty) == (["stopped-from-outside"], "likely")


def test_a_graceful_end_after_a_signal_that_was_passed_on_is_a_stop():
    at_once = ended(0, signals=[Told(TERM, 9.8, handled=True)])
    assert (state(at_once), stop(at_once).onset_s) == ("stopped", 9.8)
    flag_at_some_step = ended(0, main_process(30.0), signals=[Told(TERM, 9.8, handled=True)], ended_at=31.0)
    assert state(flag_at_some_step) == "stopped"


def test_a_signal_after_which_the_training_came_to_its_regular_end_is_none():
    def finished(number):
        return ended(0, main_process(300.0, now="between passes"), signals=[Told(number, 9.8)], ended_at=301.0)

    assert state(finished(TERM)) == state(finished(USR1)) == "healthy"


def test_a_handler_that_saves_and_goes_on_is_no_stop_even_if_the_loop_is_left_by_break():
    went_on = ended(0, main_process(300.0), signals=[Told(USR1, 9.8, handled=True)], ended_at=301.0)
    assert state(went_on) == "healthy"
    saved_and_left = ended(0, signals=[Told(USR1, 9.85, handled=True)])
    assert state(saved_and_left) == "stopped"


def test_a_signal_that_the_command_ignored_is_none():
    assert state(ended(0, signals=[Told(HUP, 9.8, ignored=True)])) == "healthy"


def test_the_exception_by_which_a_handler_leaves_is_the_stops_consequence():
    evidence = ended(1, main_process(failure=raised("Preempted", 9.9)), signals=[Told(TERM, 9.8, handled=True)])
    assert (state(evidence), roots(evidence)) == ("stopped", ["stopped-from-outside"])


def test_an_exception_before_the_signal_is_the_cause():
    evidence = ended(1, main_process(failure=raised("KeyError", 5.0)), signals=[Told(TERM, 9.8)])
    assert (state(evidence), roots(evidence)) == ("crashed", ["uncaught-exception"])


def test_ctrl_c_is_a_stop_by_sigint_whatever_the_exit_code():
    for status in (-2, 1, 130):
        evidence = ended(status, main_process(failure=raised("KeyboardInterrupt", 9.9)))
        assert (state(evidence), roots(evidence)) == ("stopped", ["stopped-from-outside"])
        assert "SIGINT" in stop(evidence).cause


def test_a_worker_that_ctrl_c_ended_first_is_not_the_cause():
    message = "DataLoader worker (pid(s) 8) exited unexpectedly"
    evidence = ended(
        1, main_process(failure=raised("RuntimeError", 9.9, message)), signals=[Told(INT, 9.8, terminal=True)]
    )
    assert roots(evidence) == ["stopped-from-outside"]
    assert "sent by the kernel: Ctrl-C at the terminal" in stop(evidence).seen


def test_a_run_that_stalled_before_somebody_stopped_it_says_so():
    stall = Stall(rank=None, pid=7, since=10.0, seconds=60.0)
    evidence = ended(-2, ended_at=400.0, stall=stall)
    assert "no progress for 6 min 30 s before that" in stop(evidence).seen


def test_a_launcher_that_was_told_to_go_names_the_signal():
    ranks = [Process("n", 100 + one, 7, "main", rank=one, world=2) for one in (0, 1)]
    words = raised("SignalException", 9.9, "Process 7 got signal: 15")
    launcher = Process("n", 7, 1, "launcher", failures=[words])
    exits = [Exit(100, -15, 9.8, "reaped", 7), Exit(101, -15, 9.8, "reaped", 7), Exit(7, 1, 10.0, "waited")]
    evidence = ended(1, *ranks, launcher, exits=exits)
    assert (state(evidence), roots(evidence)) == ("stopped", ["stopped-from-outside"])


def test_ranks_that_their_launcher_ended_because_one_failed_were_not_stopped_from_outside():
    failed = Process("n", 100, 7, "main", rank=0, world=2, failures=[raised("KeyError", 9.0)])
    other = Process("n", 101, 7, "main", rank=1, world=2)
    exits = [Exit(100, 1, 9.1, "reaped", 7), Exit(101, -15, 9.3, "reaped", 7), Exit(7, 1, 10.0, "waited")]
    evidence = ended(1, failed, other, exits=exits)
    assert (state(evidence), roots(evidence)) == ("crashed", ["rank-crash-cascade"])


def test_a_child_that_the_program_itself_ended_while_it_went_on_is_no_stop():
    child = Process("n", 9, 7, "main", optimizer_steps=3)
    evidence = ended(
        0, main_process(now="between passes"), child, exits=[Exit(9, -15, 3.0, "reaped", 7), Exit(7, 0, 9.0, "waited")]
    )
    assert state(evidence) == "healthy"


def test_a_run_that_is_gone_with_its_watcher_was_stopped_probably():
    vanished = Evidence(
        run=Run(id="r", pid=7, host="n", started=1000.0, scheduler="Slurm", time_limit=1010.0),
        recording=[main_process()],
        host=[Host(node="n", broke_off=True)],
    )
    assert (state(vanished), stop(vanished).certainty) == ("stopped", "likely")
    elsewhere = Evidence(run=vanished.run, recording=[main_process()], host=[Host(node="n")])
    assert roots(elsewhere) == [], "it may live on a node that cannot be looked at from here"


def test_the_time_limit_is_likely_within_a_minute_of_it_and_told_from_other_reasons():
    at = ended(-15, scheduler="Slurm", time_limit=1030.0)
    assert ", 20 s before Slurm's time limit" in stop(at).cause
    assert any(one.startswith("likely Slurm's time limit") for one in stop(at).seen)
    long_before = ended(-15, scheduler="Slurm", time_limit=9000.0)
    assert "limit" not in stop(long_before).cause
    assert any("possible in a Slurm job" in one for one in stop(long_before).seen)
    assert any("possible in a Kubernetes pod" in one for one in stop(ended(-15, scheduler="Kubernetes")).seen)


def test_the_last_checkpoint_that_is_whole_counts_with_the_steps_after_it():
    old = Saved("/x/old.pt", 4.0, 0.5, step=40, there=True)
    newest = Saved("/x/new.pt", 6.0, 1.0, step=60, there=True)
    gone = Saved("/x/gone.pt", 8.0, 0.1, step=80, there=False)
    failed = Saved("/x/failed.pt", 9.0, 0.1, step=85, failed="OSError: no space")
    found = stop(ended(-15, main_process(saved=[old, newest, gone, failed])))
    assert "the last checkpoint (step 60) is 3 s older" in found.cause
    assert any("/x/new.pt" in one and "30 steps after it" in one for one in found.seen)
    assert "Resume from /x/new.pt" in found.remedy.text


def test_a_checkpoint_after_the_last_step_covers_the_run():
    found = stop(ended(-15, main_process(saved=[Saved("/x/last.pt", 9.95, 0.01, step=90)])))
    assert "the last checkpoint (step 90) covers it" in found.cause
    assert found.remedy.text == "Resume from /x/last.pt."


def test_without_a_checkpoint_it_says_that_none_was_seen():
    assert "no checkpoint was seen" in stop(ended(-15)).cause


def test_files_of_one_step_in_one_folder_are_one_checkpoint():
    parts = [Saved(f"/x/step-60/{name}.pt", 6.0 + at, 0.1, step=60) for at, name in enumerate(("model", "rng"))]
    found = stop(ended(-15, main_process(saved=[Saved("/x/step-40/model.pt", 4.0, 0.1, step=40), *parts])))
    assert "Resume from /x/step-60" in found.remedy.text
    assert "rng.pt" not in found.remedy.text


def test_slurm_is_asked_for_a_signal_that_what_it_starts_can_take():
    job = {"scheduler": "Slurm", "time_limit": 9000.0}
    launcher = Process("n", 6, 1, "launcher")

    def asked(*processes):
        found = stop(ended(-15, *processes, **job))
        requeue, save = found.remedy, found.alternatives[0]
        return requeue.commands[0], save.code[0].partition(",")[0]

    assert asked() == ("sbatch --requeue --signal=USR1@120 job.sh", "signal.signal(signal.SIGUSR1")
    assert asked(main_process(), launcher) == (
        "sbatch --requeue --signal=TERM@120 job.sh",
        "signal.signal(signal.SIGTERM",
    )


def test_near_the_time_limit_the_checkpoint_is_among_the_evidence():
    found = stop(ended(-15, scheduler="Slurm", time_limit=1030.0))

    assert "checkpoint" not in found.cause
    assert "no checkpoint was seen" in found.seen
