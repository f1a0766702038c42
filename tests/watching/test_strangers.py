"""Processes that are not the run's: never signalled, never waited for, never taken for one of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from stuck import wait_for
from unstuck.inside.core.run_folder import process_start
from unstuck.probes import kernel
from unstuck.trials import cleanup
from unstuck.watching import stall_clock
from unstuck.watching.follow import descends
from unstuck.watching.handles import ByStart, Pidfd, Stopping, handle_on
from unstuck.watching.watcher import Parts

NODE = os.uname().nodename
SLEEPS = (sys.executable, "-c", "import time; print(flush=True); time.sleep(600)")


@pytest.fixture
def stranger():
    """A process of this user that has nothing to do with any run."""
    process = subprocess.Popen(SLEEPS, stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def names_of(pid):
    """Recordings that seem to be its: of another node, of an earlier process with its pid, and truly its own."""
    started = process_start(pid)
    return {
        "another node": f"another-node.1.{pid}.{started}.rec",
        "an earlier process": f"{NODE}.1.{pid}.{started - 1}.rec",
        "no descendant": f"{NODE}.1.{pid}.{started}.rec",
    }


@pytest.mark.scenario
@pytest.mark.parametrize("case", ["another node", "an earlier process", "no descendant"])
def test_a_stall_that_is_stopped_ends_no_process_that_does_not_descend_from_the_command(tmp_path, stranger, case):
    program = (
        "import os, time, torch\n"
        f"open(os.environ['UNSTUCK_RECORDINGS'] + '/{names_of(stranger.pid)[case]}', 'w').close()\n"
        "time.sleep(600)\n"
    )
    (tmp_path / "train.py").write_text(program)

    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "unstuck",
            "run",
            "--on-stall",
            "stop-always",
            "--stall-after",
            "3",
            "--",
            sys.executable,
            "train.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    assert ended.returncode == 124, ended.stderr
    assert stranger.poll() is None


def test_a_handle_is_on_the_process_that_was_started_then_and_on_no_other(stranger):
    started = process_start(stranger.pid)
    for kind in (Pidfd, ByStart, handle_on):
        with pytest.raises(ProcessLookupError):
            kind(stranger.pid, started - 1)
        kind(stranger.pid, started).close()


def test_a_process_that_has_ended_and_was_not_reaped_has_ended(stranger):
    handles = [kind(stranger.pid, process_start(stranger.pid)) for kind in (Pidfd, ByStart)]

    stranger.kill()

    for handle in handles:
        wait_for(handle.ended)


def test_a_handle_works_with_a_number_that_select_cannot_take(stranger):
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 1200:
        pytest.skip(f"this process may open {before[1]} files at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        handle = Pidfd(stranger.pid)
        assert not handle.ended()
        handle.send(signal.SIGKILL)
        wait_for(handle.ended)
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_only_members_are_stopped(stranger):
    child = subprocess.Popen(SLEEPS, stdout=subprocess.PIPE)
    child.stdout.readline()
    other_start = (stranger.pid, process_start(stranger.pid) - 1)

    Stopping((child.pid, process_start(child.pid)), {other_start}).force()

    assert child.wait(timeout=60) in (-signal.SIGTERM, -signal.SIGKILL)
    assert stranger.poll() is None


def test_a_command_whose_pid_is_a_strangers_by_now_has_no_family_to_be_stopped(stranger):
    earlier = SimpleNamespace(started=process_start(stranger.pid) - 1)
    following = SimpleNamespace(heard=lambda *_: None, descended=set())

    Parts._stop(SimpleNamespace(_pid=stranger.pid, _started=earlier, following=following)).force()

    with pytest.raises(subprocess.TimeoutExpired):
        stranger.wait(timeout=1)


def test_all_below_the_command_are_stopped_with_it():
    child = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    below = int(child.stdout.readline())
    started = SimpleNamespace(started=process_start(child.pid))
    following = SimpleNamespace(heard=lambda *_: None, descended=set())

    Parts._stop(SimpleNamespace(_pid=child.pid, _started=started, following=following)).force()

    child.wait()
    wait_for(lambda: process_start(below) is None or kernel.stat(below).state == "Z")


def test_a_process_that_got_the_pid_of_one_of_a_trial_is_not_held(stranger, monkeypatch):
    families = [[os.getpid(), stranger.pid], [os.getpid()]]
    monkeypatch.setattr(cleanup, "below", lambda _: families.pop(0) if families else [os.getpid()])

    cleanup.hold(os.getpid())

    time.sleep(0.5)  # what is stopped stops when it gets a core
    assert kernel.stat(stranger.pid).state != "T"


def test_who_descends_from_whom(stranger):
    assert descends(stranger.pid, os.getpid())
    assert descends(stranger.pid, stranger.pid)
    assert not descends(os.getpid(), stranger.pid)


@pytest.mark.scenario
@pytest.mark.parametrize("case", ["another node", "an earlier process"])
def test_a_detached_watcher_does_not_wait_for_a_strangers_process(tmp_path, stranger, case):
    program = (
        "import unstuck; unstuck.watch()\nimport os, torch\n"
        "from torch.utils.data import DataLoader\n"
        f"open(os.environ['UNSTUCK_RECORDINGS'] + '/{names_of(stranger.pid)[case]}', 'w').close()\n"
        "list(DataLoader(list(range(8))))\n"
    )
    (tmp_path / "train.py").write_text(program)

    # It ends with its streams, which the watcher has, too.
    ended = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )

    assert ended.returncode == 0, ended.stderr
    (report,) = tmp_path.glob("unstuck-runs/*/report.json")
    assert json.loads(report.read_bytes())["state"] == "healthy"
    assert stranger.poll() is None


JUMPS = """
import sys, time
real, begun, ahead = time.time, time.monotonic(), float(sys.argv.pop(1))
time.time = lambda: real() + (ahead if time.monotonic() - begun > 4 else 0.0)  # as NTP or a resumed machine would
from unstuck.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.scenario
@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_clock_that_jumps_is_no_stall(tmp_path, ahead):
    (tmp_path / "jumps.py").write_text(JUMPS)
    (tmp_path / "train.py").write_text(
        "import time, torch\nfrom torch.utils.data import DataLoader\n"
        "for _ in DataLoader(list(range(5))):\n    time.sleep(3)\nprint('done')\n"
    )

    ended = subprocess.run(
        [
            sys.executable,
            "jumps.py",
            str(ahead),
            "run",
            "--on-stall",
            "stop-always",
            "--stall-after",
            "60",
            "--",
            sys.executable,
            "train.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    stalls = re.findall(r"no progress for (.*?):", ended.stderr)  # a slow import may be told, an hour may not
    assert [stall for stall in stalls if not re.fullmatch(r"[\d.]+ s|[123] min.*", stall)] == []


@pytest.mark.scenario
def test_a_run_that_was_stopped_with_its_watcher_and_goes_on_has_not_stood_still(tmp_path):
    """Ctrl-Z and fg, or a laptop that is closed and opened again."""
    (tmp_path / "train.py").write_text(
        "import time, torch\nfrom torch.utils.data import DataLoader\n"
        "for number in DataLoader(list(range(8))):\n    print(number, flush=True)\n    time.sleep(1)\nprint('done')\n"
    )
    running = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "unstuck",
            "run",
            "--on-stall",
            "stop-always",
            "--stall-after",
            "60",
            "--",
            sys.executable,
            "train.py",
        ],
        cwd=tmp_path,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline()

    os.killpg(running.pid, signal.SIGSTOP)
    wait_for(lambda: kernel.stat(running.pid).state == "T")
    time.sleep(12)  # more than a healthy step may take, as often as it is told
    os.killpg(running.pid, signal.SIGCONT)
    out, err = running.communicate(timeout=240)

    assert running.returncode == 0, err
    assert out.endswith("done\n")


@pytest.mark.parametrize("away", [12.0, 3600.0])
def test_time_for_which_the_watcher_was_stopped_is_no_time_of_the_run(monkeypatch, away):
    now = [100.0]
    monkeypatch.setattr(stall_clock.time, "monotonic", lambda: now[0])
    watched = stall_clock.WatchedTime()
    for _ in range(6):
        now[0] += 0.5
        watched.tick()

    now[0] += away

    assert watched.tick() <= 3.0 + stall_clock.LONGEST
    assert stall_clock.LONGEST < stall_clock.LEAST  # so that it is never told as a stall
