"""Which processes belong to a run, and which only happen to be above it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from unstuck.probes import processes

TRAINING = "import torch, sys, time; print(flush=True); time.sleep(60)"
NOTEBOOK = f"""
import os, subprocess, sys, torch
child = subprocess.Popen([sys.executable, "-c", {TRAINING!r}], stdout=subprocess.PIPE)
child.stdout.readline()
forked = os.fork()
if forked:
    print(child.pid, forked, flush=True)
__import__("time").sleep(60)
"""


@pytest.mark.scenario
def test_what_a_program_with_torch_in_memory_starts_by_a_command_is_a_run_by_itself():
    notebook = subprocess.Popen([sys.executable, "-c", NOTEBOOK], stdout=subprocess.PIPE, start_new_session=True)
    try:
        training, forked = (int(word) for word in notebook.stdout.readline().split())

        assert processes.run_of(training) == [training]
        assert set(processes.run_of(forked)) >= {notebook.pid, forked}
        listed = [set(run) for run in processes.all_runs()]
        assert {training} in listed
        assert {notebook.pid, forked} in listed
    finally:
        os.killpg(notebook.pid, signal.SIGKILL)
        notebook.wait()
