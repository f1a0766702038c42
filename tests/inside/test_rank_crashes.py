"""A rank that native code crashes leaves its Python stack behind, and whoever else cares for faults is left alone."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from running import Run

pytestmark = pytest.mark.scenario  # real process groups that crash, each takes a few seconds

Started = Callable[..., Run]

RANK = """
import ctypes, faulthandler, os, signal, sys, tempfile, threading, time
import torch, torch.distributed as dist
{before}
def train():
    {then}

with tempfile.TemporaryDirectory() as folder:
    dist.init_process_group("gloo", init_method=f"file://{{folder}}/meet", rank=0, world_size=1)
train()
"""
ABORTED = """libc = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    libc.pthread_create(ctypes.byref(thread), None, libc.abort, None)
    time.sleep(20)
"""


def rank(then: str, before: str = "") -> str:
    return RANK.format(then=then, before=before)


def functions(places: list) -> list[str]:
    return [one.function for one in places]


def test_a_rank_that_crashes_leaves_its_stack_and_ends_as_ever(started: Started) -> None:
    program = rank("ctypes.string_at(0)")
    plain, run = started(program, recorded=False), started(program)

    assert (run.code, run.err) == (plain.code, plain.err)
    assert run.code == -signal.SIGSEGV
    assert functions(run.main.process().crash)[-2:] == ["train", "string_at"]
    assert run.main.process().crash_beside == []


def test_where_a_native_thread_aborts_the_main_threads_calls_are_kept_apart(started: Started) -> None:
    run = started(rank(ABORTED))

    assert run.code == -signal.SIGABRT
    assert run.main.process().crash == []
    assert functions(run.main.process().crash_beside)[-1] == "train"


def test_forked_children_and_workers_crash_as_without_us(started: Started) -> None:
    run = started(
        rank(
            """print("before", faulthandler.is_enabled())
    if not os.fork():
        print("child", faulthandler.is_enabled(), flush=True)
        os._exit(0)
    os.wait()
    from torch.utils.data import DataLoader
    for _ in DataLoader(Crashing(), num_workers=1):
        pass""",
            before="""
class Crashing:
    def __len__(self):
        return 4
    def __getitem__(self, index):
        ctypes.string_at(0)
""",
        )
    )

    assert run.out.split("\n")[:2] == ["before False", "child False"]
    assert "ERROR: Unexpected segmentation fault encountered in worker." in run.err
    assert functions(run.workers[0].process().crash)[-2:] == ["__getitem__", "string_at"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_handler_of_the_users_own_stays_here_and_in_children(started: Started, when: str) -> None:
    handler = "signal.signal(signal.SIGABRT, lambda *_: os.write(1, b'theirs\\n'))"
    tried = """os.kill(os.getpid(), signal.SIGABRT)
    if not os.fork():
        os.kill(os.getpid(), signal.SIGABRT)
        time.sleep(0.1)
        os._exit(0)
    os.wait()"""
    program = rank(tried, before=handler) if when == "before" else rank(f"{handler}\n    {tried}")
    run = started(program)

    assert (run.code, run.out) == (0, "theirs\ntheirs\n")


def test_a_user_who_has_crashes_printed_later_has_them_printed_also_by_children(started: Started) -> None:
    run = started(
        rank(
            """faulthandler.enable(sys.stdout)
    if not os.fork():
        ctypes.string_at(0)
    os.wait()
    ctypes.string_at(1)"""
        )
    )

    assert run.code == -signal.SIGSEGV
    assert run.out.count("Fatal Python error: Segmentation fault") == 2
    assert run.main.process().crash == []


ALONE = """
import ctypes, faulthandler, sys
import torch
{then}
def train():
    ctypes.string_at(0)
train()
"""


def test_a_single_process_that_crashes_leaves_its_stack_and_ends_as_ever(started: Started) -> None:
    program = ALONE.format(then="")
    plain, run = started(program, recorded=False), started(program)

    assert (run.code, run.out, run.err) == (plain.code, plain.out, plain.err)
    assert run.code == -signal.SIGSEGV
    assert functions(run.main.process().crash)[-2:] == ["train", "string_at"]


@pytest.mark.parametrize(
    "then",
    ["faulthandler.enable()", "if not faulthandler.is_enabled(): faulthandler.enable()", "faulthandler.disable()"],
)
def test_a_user_who_decides_about_faults_himself_has_it_his_way(started: Started, then: str) -> None:
    program = ALONE.format(then=then)
    plain, run = started(program, recorded=False), started(program)

    assert run.code == plain.code == -signal.SIGSEGV
    assert ("Fatal Python error" in run.err) == ("Fatal Python error" in plain.err) == ("enable()" in then)
    assert run.main.process().crash == []


def test_with_pythonfaulthandler_a_single_process_crashes_as_without_us(started: Started) -> None:
    run = started(ALONE.format(then=""), variables={"PYTHONFAULTHANDLER": "1"})

    assert "in train" in run.err
    assert run.main.process().crash == []
