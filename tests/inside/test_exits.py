"""How children end is learned before anybody's clean-up hides it."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from running import Run

from unstuck.inside import format as f
from unstuck.inside.failures.exits import PATIENCE

Recorded = Callable[..., Run]

DYING = """
import os, signal, sys, time
import torch
from torch.utils.data import DataLoader

class Dying:
    def __len__(self):
        return 400
    def __getitem__(self, index):
        if index == {at}:
            {how}
        return torch.zeros({size})

try:
    for batch in DataLoader(Dying(), batch_size=4, num_workers=3, prefetch_factor=4):
        pass
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("turn", range(6))
def test_a_worker_that_is_killed_is_recorded_as_killed_whatever_came_to_the_surface(
    recorded: Recorded, turn: int
) -> None:
    # given a worker that is killed with batches of all sizes in flight
    how = "os.kill(os.getpid(), signal.SIGKILL)"
    run = recorded(DYING.format(how=how, at=17 + 23 * turn, size=(1, 100, 40_000)[turn % 3]))
    # then the main process had some exception, and its recording says what happened
    assert run.out
    killed = [pid for pid, statuses in run.exits().items() if statuses == {-signal.SIGKILL}]
    assert len(killed) == 1
    assert killed[0] in run.main.process().loaders[0].pids


@pytest.mark.parametrize(("how", "status"), [("time.sleep(0.1); os._exit(3)", 3), ("os.abort()", -signal.SIGABRT)])
def test_a_worker_that_exits_by_itself_is_recorded_with_its_status(recorded: Recorded, how: str, status: int) -> None:
    run = recorded(DYING.format(how=how, at=9, size=1))
    assert {status} in run.exits().values()


def test_statuses_of_processes_the_user_starts_are_recorded(recorded: Recorded) -> None:
    run = recorded("""
        import multiprocessing, os, signal, subprocess, sys

        if __name__ == "__main__":
            one = subprocess.Popen(["sh", "-c", "exit 7"])
            one.wait()
            two = multiprocessing.Process(target=sys.exit, args=(4,))
            two.start()
            two.join()
            three = multiprocessing.Process(target=signal.pause)
            three.start()
            three.kill()
            three.join()
            four = multiprocessing.get_context("forkserver").Process(target=sys.exit, args=(5,))
            four.start()
            four.join()
            print(one.pid, two.pid, three.pid, four.pid)
    """)
    one, two, three, four = map(int, run.out.split())
    exits = run.exits()
    assert (exits[one], exits[two], exits[three], exits[four]) == ({7}, {4}, {-signal.SIGKILL}, {5})


def test_thousands_of_children_are_all_recorded_and_none_is_remembered(recorded: Recorded) -> None:
    # given a program that starts a helper for every sample
    run = recorded("""
        import subprocess, sys
        exits = sys.modules["_unstuck_inside.failures.exits"]
        for number in range(200):
            subprocess.run(["true"])
        print(len(exits._peeked))
    """).succeeded()
    assert run.out == "0\n"
    assert len(run.main.noted(f.Kind.EXIT)) == 200


def test_a_role_shows_even_if_a_childs_exit_opened_the_recording(recorded: Recorded) -> None:
    # given a process of the user's own that runs a helper before its loader
    run = recorded("""
        import multiprocessing, subprocess
        from torch.utils.data import DataLoader

        def train():
            subprocess.run(["true"])
            for batch in DataLoader([1, 2, 3]):
                pass

        child = multiprocessing.Process(target=train)
        child.start()
        child.join()
        print(child.pid)
    """).succeeded()
    (child,) = [one for one in run.processes if one.pid == int(run.out)]
    assert child.role == "main"
    assert child.loaders[0].batches == 3


def test_a_time_out_of_the_users_does_not_wait_for_dead_workers(recorded: Recorded) -> None:
    # given many exceptions that no dying worker causes
    run = recorded("""
        import time
        from torch.utils.data import DataLoader

        class Skipping:
            def __len__(self):
                return 60
            def __getitem__(self, index):
                raise KeyError(index)

        iterator = iter(DataLoader(Skipping(), num_workers=1))
        times = []
        for turn in range(60):
            begun = time.monotonic()
            try:
                next(iterator)
            except KeyError:
                times.append(time.monotonic() - begun)
        print(len(times), min(times))
    """).succeeded()
    # then not every one of them took as long as dead workers are waited for
    count, quickest = run.out.split()
    assert int(count) == 60
    assert float(quickest) < PATIENCE / 2


def test_a_worker_that_is_just_dying_is_waited_for_and_not_reaped(recorded: Recorded) -> None:
    # given a worker that was killed this very moment
    run = recorded("""
        import os, signal, sys
        from torch.utils.data import DataLoader
        note_dead_workers = sys.modules["_unstuck_inside.failures.exits"].note_dead_workers

        iterator = iter(DataLoader(list(range(100)), num_workers=2))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for worker in iterator._workers:
            os.kill(worker.pid, signal.SIGKILL)
            note_dead_workers(5.0)
            status = os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT).si_status
            print(worker.pid, status, flush=True)
            break
        os.kill(iterator._workers[1].pid, signal.SIGKILL)
        os._exit(0)
    """).succeeded()
    # then its status is known, and still there for its parent
    pid, status = map(int, run.out.split())
    assert status == signal.SIGKILL
    assert run.exits() == {pid: {-signal.SIGKILL}}
