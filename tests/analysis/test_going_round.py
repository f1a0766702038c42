"""Main threads that compute and get nowhere, and threads that keep the GIL."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager

import msgspec
import pytest

from kept import evidence_of
from pythons import python
from stuck import wait_for
from unstuck.analysis.case import Case
from unstuck.analysis.endless_loops import begun_again, goes_round, lines, only_computes
from unstuck.probes import kernel, rounds
from unstuck.probes.look import look
from unstuck.rules.discovery import all_rules
from unstuck.rules.engine import judge_one

READING = """
import sys, threading
kept = []
def rounds():
    for path in sys.argv[2:]:
        with open(path) as file:
            yield from file
while True:
    for line in rounds():
        if sys.argv[1] == "keeps": kept.append(line * 20)
"""
DRAWING = """
import threading
def draw():
    while True:
        pass
draw()
"""
KEEPING = """
import ctypes, sys, threading, time
native = (ctypes.PyDLL if sys.argv[1] == "keeps" else ctypes.CDLL)(None)
threading.Thread(target=native.sleep, args=(100,), daemon=True).start()
while True:
    time.sleep(0.001)
"""


@contextmanager
def running(program, *arguments, interpreter=sys.executable):
    process = subprocess.Popen([interpreter, "-c", program, *map(str, arguments)])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def texts(tmp_path):
    paths = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in paths:
        path.write_text("the rain fell all night\n" * 40_000)
    return paths


def watched(pid, seconds=3):
    wait_for(lambda: kernel.stat(pid).cpu > 0.3)
    return rounds.watch([pid], seconds)[pid]


def test_files_that_are_read_again_and_again_for_nothing_go_round(texts):
    with running(READING, "drops", *texts) as pid:
        seen = watched(pid)

    assert set(begun_again(seen)) == set(map(str, texts))
    assert goes_round(msgspec.structs.replace(seen, samples=named(seen)))


def test_files_of_which_something_is_kept_do_not(texts):
    with running(READING, "keeps", *texts[:1]) as pid:
        seen = watched(pid)

    assert seen.grown > 1 << 20
    assert not goes_round(msgspec.structs.replace(seen, samples=named(seen)))


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_a_loop_that_reads_nothing_only_computes(version):
    with running(DRAWING, interpreter=python(version)) as pid:
        seen = watched(pid)
    seen = msgspec.structs.replace(seen, samples=named(seen))

    assert only_computes(seen)
    assert not goes_round(seen)
    assert len(lines(seen)) <= 2


def named(seen):
    """A program of one line has no file of its own: here it gets one."""
    return [
        msgspec.structs.replace(
            one,
            frames=[
                msgspec.structs.replace(frame, file=frame.file.replace("<string>", "/x.py")) for frame in one.frames
            ],
        )
        for one in seen.samples
    ]


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
@pytest.mark.parametrize("keeps", [True, False])
def test_the_thread_that_keeps_the_gil_is_seen_in_every_python(version, keeps):
    with running(KEEPING, "keeps" if keeps else "lets go", interpreter=python(version)) as pid:
        wait_for(lambda: len(kernel.threads(pid)) == 2)
        time.sleep(0.5)
        found = look([pid], [], lambda _: None)

    held = [(one.holds_gil, one.held_gil) for one in found.stacks if not one.is_main]
    (main,) = (one for one in found.stacks if one.is_main)
    assert held == [(keeps, keeps)]
    assert not (main.holds_gil and main.held_gil)
    assert (found.processes[0].main_task.switches > 20) is True


def kept(rule):
    return evidence_of(rule)


def changed(evidence, **fields):
    """The same with these fields of every process that was looked at."""
    seen = [msgspec.structs.replace(one, **fields) for one in evidence.processes]
    return msgspec.structs.replace(evidence, processes=seen)


def found(rule, evidence):
    return judge_one(all_rules()[rule], Case(evidence)).findings


def rounds_changed(**fields):
    evidence = kept("loop-without-batch")
    (seen,) = (one for one in evidence.processes if one.rounds is not None)
    return changed(evidence, rounds=msgspec.structs.replace(seen.rounds, **fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"grown": 1 << 20},
        {"written": 10},
        {"files": {}, "size": 1 << 40},
        {"fresh": ["/data/new.jsonl"]},
        {"samples": []},
    ],
)
def test_a_loop_that_keeps_writes_or_comes_to_something_new_is_not_called_endless(fields):
    assert found("loop-without-batch", rounds_changed()) != []
    assert found("loop-without-batch", rounds_changed(**fields)) == []


def test_a_loop_that_has_given_a_step_is_not_one_without_a_batch():
    evidence = kept("loop-without-batch")
    stepped = [msgspec.structs.replace(one, optimizer_steps=1) for one in evidence.recording]

    assert found("loop-without-batch", msgspec.structs.replace(evidence, recording=stepped)) == []


def test_pure_computation_has_a_minute():
    only = rounds_changed(files={}, fresh=[], read=0, size=0)

    def after(seconds):
        return msgspec.structs.replace(only, stall=msgspec.structs.replace(only.stall, seconds=seconds))

    assert found("loop-without-batch", after(59.0)) == []
    assert found("loop-without-batch", after(61.0)) != []


def test_a_thread_that_gave_the_gil_away_between_the_looks_does_not_keep_it():
    evidence = kept("gil-held")
    stacks_ = [msgspec.structs.replace(one, held_gil=False) for one in evidence.stacks]

    assert found("gil-held", evidence) != []
    assert found("gil-held", msgspec.structs.replace(evidence, stacks=stacks_)) == []


def test_a_thread_that_computes_in_python_sleeps_whenever_it_gives_the_gil_away():
    evidence = kept("gil-held")

    def computing(slept):
        """The holder computes instead, and sleeps so often."""
        (seen,) = evidence.processes
        holder = next(one for one in evidence.stacks if one.holds_gil)
        busy = [
            msgspec.structs.replace(one, state="R", cpu=seen.looked, switches=100 + slept, preempted=100)
            if one.tid == holder.tid
            else one
            for one in seen.tasks
        ]
        return changed(evidence, tasks=busy)

    assert found("gil-held", computing(slept=0)) != []
    assert found("gil-held", computing(slept=150)) == []
