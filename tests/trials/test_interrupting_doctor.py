"""Ctrl-C at any moment of a ladder: it ends within seconds, and nothing of it stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

LOADER = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 1000
    def __getitem__(self, index):
        time.sleep(0.2)
        return torch.zeros(100_000)
def make(): return DataLoader(Slow(), batch_size=2, num_workers=2)
"""
SOON = 30.0  # seconds, on a machine that four others keep busy
INTERRUPTED = 130
TERM = 1 << (signal.SIGTERM - 1)


def begun(folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "slow.py").write_text(LOADER)
    command = [sys.executable, "-m", "unstuck", "doctor", "slow.py:make", *words, "--run-dir", str(folder / "runs")]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def left_of(folder: Path) -> list[int]:
    """Processes that still carry the folder in their environment or arguments."""
    mark = str(folder).encode()
    found = []
    for one in psutil.pids():
        for name in ("environ", "cmdline"):
            try:
                if one != os.getpid() and mark in Path(f"/proc/{one}/{name}").read_bytes():
                    found.append(one)
            except OSError:
                continue
    return found


def wait_for(folder: Path, pattern: str) -> None:
    until = time.monotonic() + 120
    while not list(folder.glob(pattern)):
        assert time.monotonic() < until, pattern
        time.sleep(0.05)


def hears(pid: int) -> None:
    """Waits until it has its own answer to SIGTERM, which Python alone does not."""
    until = time.monotonic() + 120
    while not int(re.search(r"^SigCgt:\s*(\S+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1], 16) & TERM:
        assert time.monotonic() < until
        time.sleep(0.01)


def leaves_nothing(folder: Path, running: subprocess.Popen[str], shared: set[str]) -> None:
    began = time.monotonic()
    out, _ = running.communicate(timeout=120)
    assert running.returncode == INTERRUPTED, out
    assert time.monotonic() - began < SOON
    assert "Traceback" not in out
    assert not left_of(folder)
    torchs = {one for one in os.listdir("/dev/shm") if one.startswith(("torch_", "sem.mp-"))}
    mine = {one for one in torchs - shared if str(running.pid) in one}
    assert not mine


@pytest.mark.scenario
@pytest.mark.parametrize("where", ["the process", "the group"])
def test_in_the_middle_of_a_rung_with_workers(tmp_path, where):
    shared = set(os.listdir("/dev/shm"))
    running = begun(tmp_path, "--only", "workers")
    wait_for(tmp_path, "runs/*/trial-workers/recordings/*")
    time.sleep(4)
    (os.killpg if where == "the group" else os.kill)(running.pid, signal.SIGINT)
    leaves_nothing(tmp_path, running, shared)


@pytest.mark.scenario
def test_before_the_first_child_is_started(tmp_path):
    shared = set(os.listdir("/dev/shm"))
    running = begun(tmp_path)
    hears(running.pid)  # then it looks at the environment
    os.kill(running.pid, signal.SIGINT)
    leaves_nothing(tmp_path, running, shared)


@pytest.mark.scenario
def test_twice_because_somebody_is_impatient(tmp_path):
    shared = set(os.listdir("/dev/shm"))
    running = begun(tmp_path, "--only", "no-workers,workers")
    wait_for(tmp_path, "runs/*/trial-no-workers/facts.json")
    for _ in range(3):
        os.kill(running.pid, signal.SIGINT)
        time.sleep(0.1)
    leaves_nothing(tmp_path, running, shared)
