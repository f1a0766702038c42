"""What a process says of itself for those who look: its parent's threads, and the stages that are open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from running import Run, meanwhile

from unstuck.evidence.process import Process

Recorded = Callable[..., Run]
Started = Callable[..., Run]


def test_a_forked_child_knows_how_many_threads_its_parent_had_and_their_names(recorded: Recorded) -> None:
    run = recorded("""
        import os, sys, threading
        record = sys.modules["_unstuck_inside.core.process"].process.recording
        held = threading.Event()
        for number in range(11):
            threading.Thread(target=held.wait, name=f"logger-{number}" + "x" * 200, daemon=True).start()
        pid = os.fork()
        if pid == 0:
            record(1)
            os._exit(0)
        os.waitpid(pid, 0)
        held.set()
        print(pid)
    """).succeeded()
    child = next(one for one in run.processes if one.pid == int(run.out))
    assert child.threads_at_fork == 12
    assert [name[:9] for name in child.thread_names_at_fork] == [f"logger-{number}x"[:9] for number in range(8)]


def test_a_child_of_one_thread_says_one_and_a_started_process_says_nothing(started: Started) -> None:
    run = started("""
        from torch.utils.data import DataLoader
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                for batch in DataLoader([1, 2], num_workers=1, multiprocessing_context=method):
                    pass
    """).succeeded()
    assert run.main.process().threads_at_fork is None
    forked, spawned = (one.process() for one in run.workers)
    assert (forked.threads_at_fork, forked.thread_names_at_fork) == (1, [])
    assert spawned.threads_at_fork is None


def test_looking_at_threads_before_a_fork_costs_next_to_nothing_and_runs_no_python(recorded: Recorded) -> None:
    run = recorded("""
        import sys, threading, time
        forks = sys.modules["_unstuck_inside.core.process"]
        assert list(threading._active) and not forks._threads_at_fork
        look = forks.functools.partial(forks._threads_at_fork.update, threading._active)
        ran = []
        sys.setprofile(lambda frame, event, argument: ran.append(event))
        look()
        sys.setprofile(None)
        assert "call" not in ran, ran
        times = []
        for turn in range(1000):
            begun = time.perf_counter_ns()
            look()
            times.append(time.perf_counter_ns() - begun)
        print(min(times))
    """).succeeded()
    assert int(run.out) < 5000


def test_the_board_says_which_stages_are_open_and_what_they_are_about(recorded: Recorded) -> None:
    run = recorded("""
        import os, unstuck
        with unstuck.stage("over"):
            pass
        with unstuck.stage("epoch"), unstuck.stage("decode", item="/data/a.jpg"):
            os.kill(os.getpid(), 9)
    """)
    stages = run.main.process().stages_now
    assert [(one.name, one.item) for one in stages] == [("epoch", ""), ("decode", "/data/a.jpg")]
    assert stages[1].since >= stages[0].since > 0


def test_a_lock_file_that_is_waited_for_is_on_the_board(recorded: Recorded, tmp_path: Path) -> None:
    # given a lock file that nobody takes away until it was seen on the board
    seen: list[Process] = []
    look = meanwhile(tmp_path / "recordings", lambda one: one.stages_now, seen)

    def during(pid: int) -> None:
        look(pid)
        (tmp_path / "seen").touch()

    run = recorded(
        """
        import os, threading, time
        import torch
        from torch.utils.file_baton import FileBaton
        path = os.path.dirname(os.path.realpath(__file__)) + "/lock"
        first, second = FileBaton(path), FileBaton(path, wait_seconds=0.02)
        assert first.try_acquire() and not second.try_acquire()
        def release():
            while not os.path.exists(os.path.dirname(path) + "/seen"):
                time.sleep(0.01)
            first.release()
        threading.Thread(target=release).start()
        second.wait()
        print(os.path.exists(path))
        """,
        during=during,
    ).succeeded()
    assert run.out == "False\n"
    # then its path was there to be seen, and is not any more
    assert [(one.name, one.item) for one in seen[0].stages_now] == [("waiting for a lock file", f"{tmp_path}/lock")]
    process = run.main.process()
    assert process.stages_now == []
    assert process.stages["waiting for a lock file"].total > 0


def test_the_ninety_ninth_percentile_lies_above_the_ninety_fifth(recorded: Recorded) -> None:
    run = recorded("""
        import time, unstuck
        for turn in range(200):
            with unstuck.stage("step"):
                if turn > 195:
                    time.sleep(0.02)
    """).succeeded()
    timing = run.main.process().stages["step"]
    assert timing.p50 <= timing.p95 < 0.01 < timing.p99 <= timing.longest


def test_a_main_process_tells_the_versions_of_torch_and_of_what_was_imported_beside_it(recorded: Recorded) -> None:
    run = recorded("""
        import torch
        import accelerate
        from torch.utils.data import DataLoader

        list(DataLoader(list(range(4))))
        print(torch.__version__, accelerate.__version__)
    """)

    (main,) = [one for one in run.processes if one.role == "main"]
    assert run.out.split() == [main.versions["torch"], main.versions["accelerate"]]
    assert "wandb" not in main.versions
