"""A rank can be asked which collectives it is in: by one thread that holds nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from running import TIMEOUT, Run

from unstuck.inside.failures.collectives import switch_on
from unstuck.probes import flight_recorder

pytestmark = pytest.mark.scenario  # process groups are made and waited for

Recorded = Callable[..., Run]

GROUP = """
import ctypes, os, sys, tempfile, threading, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader

folder = tempfile.mkdtemp()
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=0, world_size=1)
dist.all_reduce(torch.ones(3))
dist.barrier()
"""


def refused(pid: int) -> dict[int, str]:
    """Once it can be asked; again, if the machine is too busy for an answer."""
    until = time.monotonic() + TIMEOUT
    while flight_recorder._asked(pid) is None and time.monotonic() < until:
        time.sleep(0.05)
    return flight_recorder.ask([pid]).refused and flight_recorder.ask([pid]).refused


def test_it_answers_while_its_main_thread_waits_for_ever(recorded: Recorded, tmp_path: Path) -> None:
    told = {}

    def during(pid: int) -> None:
        told.update(refused(pid))
        (tmp_path / "asked").touch()

    text = "while not os.path.exists(os.path.join(os.path.dirname(__file__), 'asked')): time.sleep(0.02)\nos._exit(0)\n"
    run = recorded(GROUP + text, during)

    assert (run.code, told) == (0, {})
    operations = [one.operation for one in run.processes[0].collectives]
    assert operations == ["all_reduce", "barrier"]


def test_one_that_holds_the_interpreter_does_not_answer_and_that_is_told(recorded: Recorded, tmp_path: Path) -> None:
    told = {}

    def during(pid: int) -> None:
        while not (tmp_path / "held").exists():
            time.sleep(0.02)
        told.update({"said": list(flight_recorder.ask([pid]).refused.values())})

    held = "sleep = ctypes.PyDLL(None).sleep\nopen(os.path.join(os.path.dirname(__file__), 'held'), 'w').close()\n"
    held += "sleep(8)\n"  # unlike CDLL, it keeps the lock
    run = recorded(GROUP + held, during)

    assert run.code == 0
    assert told == {"said": [flight_recorder.SILENT]}


def test_what_it_did_last_is_kept_when_it_ends_by_an_exception(recorded: Recorded) -> None:
    # gloo's own thread notes a finished collective a moment after the caller has gone on
    settled = """
import json
while not all(one["retired"] for one in json.loads(torch._C._distributed_c10d._dump_fr_trace_json())["entries"]):
    time.sleep(0.01)
"""
    run = recorded(GROUP + settled + "raise ValueError('on purpose')\n")

    (rank,) = [one for one in run.processes if one.role == "main"]
    assert [one.operation for one in rank.collectives] == ["all_reduce", "barrier"]
    assert all(one.finished for one in rank.collectives)
    assert rank.group is not None
    assert (rank.group.backend, rank.group.rank, rank.group.world) == ("gloo", 0, 1)


def test_torch_is_not_made_to_import_its_compiler_for_it(started: Recorded) -> None:
    text = """
sys.modules["_unstuck_inside.failures.collectives"].write_flight_record(sys.modules["_unstuck_inside.core.process"].process.recorder)
print("torch._inductor" in sys.modules)
"""
    run = started(GROUP + text)

    assert (run.code, run.out) == (0, "False\n"), run.err
    (rank,) = [one for one in run.processes if one.role == "main"]
    assert [one.operation for one in rank.collectives] == ["all_reduce", "barrier"]


def test_a_worker_has_neither_the_thread_nor_the_pipe_and_is_not_told_of_it(recorded: Recorded) -> None:
    text = """
print([one for one in DataLoader([1, 2], num_workers=1)])
"""
    run = recorded(GROUP + text).succeeded()

    (worker,) = [one for one in run.processes if one.role == "worker"]
    assert not any("unstuck" in name for name in worker.thread_names_at_fork)
    assert worker.threads_at_fork == 1
    assert (worker.rank, worker.world, worker.traced) == (0, 1, None)


def test_a_program_that_has_a_file_of_its_own_under_that_number_is_not_written_to(
    recorded: Recorded, tmp_path: Path
) -> None:
    told = {}

    def during(pid: int) -> None:
        while not (tmp_path / "taken").exists():
            time.sleep(0.02)
        told.update({"asked": flight_recorder._asked(pid)})
        (tmp_path / "asked").touch()

    text = """
number = sys.modules["_unstuck_inside.failures.collectives"].flight.asking
here = os.path.dirname(__file__)
os.dup2(os.open(f"{here}/mine", os.O_CREAT | os.O_WRONLY), number)
open(f"{here}/taken", "w").close()
while not os.path.exists(f"{here}/asked"):
    time.sleep(0.02)
"""
    run = recorded(GROUP + text, during)

    assert (run.code, told) == (0, {"asked": None}), run.err
    assert (tmp_path / "mine").read_bytes() == b""


@pytest.mark.parametrize(
    ("version", "built", "given", "set_to"),
    [
        ("2.2.2+cu121", "12.1", {}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}),
        ("2.13.0", "13.0", {}, {"TORCH_FR_BUFFER_SIZE": "2000"}),
        ("2.13.0+cpu", None, {}, {}),
        ("2.2.2", "12.1", {"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"}),
        ("2.13.0", "13.0", {"TORCH_NCCL_TRACE_BUFFER_SIZE": "5"}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "5"}),
        ("unknown", "13.0", {}, {}),
    ],
)
def test_it_is_switched_on_for_gpus_where_nobody_has_decided(monkeypatch, version, built, given, set_to):
    names = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    for name in names:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    torch = SimpleNamespace(__version__=version, cuda=built, hip=None)
    monkeypatch.setitem(sys.modules, "torch.version", torch)

    switch_on()

    assert {name: os.environ[name] for name in names if name in os.environ} == set_to
