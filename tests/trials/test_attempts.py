"""A trial is a recorded run within limits, and whatever ends it, nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from unstuck.errors import UserError
from unstuck.trials.attempt import Limits, Outcome, Work, attempt, prepare
from unstuck.trials.cleanup import SHM, Left, below, end, sweep

LOADERS = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self): return 40
    def __getitem__(self, index): return torch.full((1000,), index)

class Sleeps(Numbers):
    def __getitem__(self, index):
        time.sleep(1000 if index == 6 else 0)
        return super().__getitem__(index)

class Grows(Numbers):
    def __getitem__(self, index):
        self.kept = getattr(self, "kept", []) + [bytearray(50 << 20)]
        time.sleep(0.05)
        return super().__getitem__(index)

def aborts():
    import atexit, os
    atexit.register(os.abort)
    return plain()

def plain(): return DataLoader(Numbers(), batch_size=4, num_workers=2)
def sleeps(): return DataLoader(Sleeps(), batch_size=4, num_workers=2)
def grows(): return DataLoader(Grows(), batch_size=4, num_workers=1)
"""
HOLDS = """
import _multiprocessing, os, time
held = _multiprocessing.SemLock(1, 1, 1, f"/mp-of-{os.getpid()}", False)  # as a spawned worker is given one
print(flush=True)
time.sleep(60)
"""


@pytest.fixture
def loaders(tmp_path: Path) -> Path:
    path = tmp_path / "some_loaders.py"
    path.write_text(LOADERS)
    return path


def tried(path: Path, name: str, limits: Limits | None = None) -> Outcome:
    prepare()
    work = Work(f"{path}:{name}", {}, sys.executable, path.parent / "trials")
    return attempt("passes", name, work, {}, limits or Limits(), lambda _: None)


@pytest.mark.scenario
def test_a_pass_over_a_loader_is_recorded_and_judged(loaders: Path) -> None:
    outcome = tried(loaders, "plain")

    assert (outcome.done, outcome.ended, outcome.facts["batches"]) == (True, "itself", [10])
    assert outcome.facts["loader"]["num_workers"] == 2
    assert outcome.report is not None
    assert outcome.report.state == "healthy"
    assert outcome.peak.anonymous > 50 << 20
    recording = outcome.report.evidence.recording  # type: ignore[union-attr]
    assert sorted(one.role for one in recording or ()) == ["main", "worker", "worker"]


@pytest.mark.scenario
def test_one_that_takes_too_long_is_judged_as_it_stands_and_ended(loaders: Path) -> None:
    outcome = tried(loaders, "sleeps", Limits(seconds=20))  # importing torch is in it, on a busy machine

    assert (outcome.ended, outcome.done) == ("time", False)
    assert outcome.report is not None
    (main,) = outcome.report.activities
    assert main.doing.startswith(("waiting for a batch", "waiting for data"))  # as recorded, or as it was looked at
    assert not processes_of(outcome.folder)


@pytest.mark.scenario
def test_one_that_takes_too_much_memory_is_ended_before_the_kernel_does_it(loaders: Path) -> None:
    outcome = tried(loaders, "grows", Limits(memory=700 << 20))

    assert (outcome.ended, outcome.done) == ("memory", False)
    assert 700 << 20 < outcome.peak.total < 1400 << 20
    assert not processes_of(outcome.folder)


@pytest.mark.scenario
def test_an_interpreter_that_aborts_when_all_is_done_has_not_failed_for_that(loaders: Path) -> None:
    outcome = tried(loaders, "aborts")

    assert (outcome.status, outcome.done) == (-signal.SIGABRT, True)


@pytest.mark.scenario
def test_a_target_that_cannot_be_used_is_an_error_for_people(loaders: Path) -> None:
    with pytest.raises(UserError, match="has no 'absent'; it has Numbers, Sleeps, Grows, aborts, plain, sleeps, grows"):
        tried(loaders, "absent")


@pytest.mark.scenario
@pytest.mark.parametrize("sent", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.calm), signal.SIGKILL])
def test_whatever_ends_the_one_who_tries_the_trial_ends_too(loaders: Path, sent: signal.Signals) -> None:
    text = f"""
import signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_attempts import tried
from unstuck.trials.cleanup import heard
signal.signal(signal.SIGINT, signal.default_int_handler)
heard()
tried(Path({str(loaders)!r}), "sleeps")
"""
    process = subprocess.Popen([sys.executable, "-c", text], start_new_session=True, stderr=subprocess.DEVNULL)
    home = loaders.parent / "trials" / "trial-sleeps"
    wait_for(lambda: len(processes_of(home)) >= 3)

    process.send_signal(sent)
    if sent is signal.SIGINT:  # who is in a hurry presses it twice
        time.sleep(0.1)
        process.send_signal(sent)
    process.wait(15)

    wait_for(lambda: not processes_of(home))


@pytest.mark.scenario
def test_only_semaphores_of_processes_that_were_ended_are_swept_out_of_shared_memory() -> None:
    before = set(os.listdir(SHM))
    one, other = (subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE) for _ in range(2))
    for process in (one, other):
        assert process.stdout is not None
        process.stdout.readline()
    made = set(os.listdir(SHM)) - before
    try:
        left = end(one.pid, Path("nowhere"))
        one.wait()
        sweep(left)
        assert len(set(os.listdir(SHM)) & made) < len(made)
        other.kill()  # its parent kills it, not we: its semaphore is nobody's business
        other.wait()
        sweep(Left({other.pid: 0.0}, set()))
        assert set(os.listdir(SHM)) & made
    finally:
        for process in (one, other):
            process.kill()
            process.wait()
        for name in set(os.listdir(SHM)) & made:
            (SHM / name).unlink()


def test_the_processes_below_one_are_found() -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60"], start_new_session=True)
    try:
        wait_for(lambda: len(below(process.pid)) == 3)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def processes_of(folder: Path) -> list[int]:
    """By the request they were started with, or the mark in their environment."""
    mark = str(folder).encode()
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            text = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if pid != os.getpid() and mark in text:
            found.append(pid)
    return found


def wait_for(come: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not come():
        assert time.monotonic() < until
        time.sleep(0.1)
