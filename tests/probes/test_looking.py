"""A look at live processes: what ends or is stopped meanwhile is evidence, and a pid given away fools nobody."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from stuck import wait_for
from unstuck.evidence.process import Process
from unstuck.inside import format as f
from unstuck.probes import kernel, look, processes, stack_dumps
from unstuck.recordings.process import process_of
from unstuck.recordings.reader import Facts, Recording

pytestmark = pytest.mark.scenario

SLEEPS = "import time\ndef rest():\n    time.sleep(60)\nrest()\n"
# As a recorded process is: it says in its recording at which signal it writes its stacks down.
ANSWERS = """
import os, sys, time
sys.path.insert(0, {package!r})
from inside import format as f
from inside.core.recorder import Recorder, started_ticks
from inside.core.stacks import stacks

name = "%s.%d.%d.%d.rec" % (os.uname().nodename, os.getppid(), os.getpid(), started_ticks())
recorder = Recorder(os.path.join(sys.argv[1], name), f.WORKER_LAYOUT)
stacks.answer(recorder)
recorder.publish()
def rest():
    time.sleep(60)
rest()
"""
NODE = os.uname().nodename
PACKAGE = os.path.dirname(os.path.dirname(f.__file__))


@contextlib.contextmanager
def child(code, *arguments, **options):
    words = [sys.executable, "-I", "-S", "-c", code, *map(str, arguments)]
    with subprocess.Popen(words, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def asleep(process):
    wait_for(lambda: "nanosleep" in kernel.call(process.pid).name)
    return process


def ignore(_):
    pass


def test_what_ends_or_is_stopped_during_a_look_is_told(capfd):
    with child(SLEEPS) as rests, child(SLEEPS) as dies, child(SLEEPS) as stays_unreaped, child(SLEEPS) as stopped:
        everybody = [asleep(one) for one in (rests, dies, stays_unreaped, stopped)]

        def meanwhile(_):
            """Called between two looks."""
            dies.kill()
            dies.wait()
            stays_unreaped.kill()
            os.kill(stopped.pid, signal.SIGSTOP)
            wait_for(lambda: kernel.stat(stays_unreaped.pid).state == "Z")
            return 0.1

        seen = look.look([one.pid for one in everybody], [], ignore, meanwhile)

    states = {one.pid: (one.state, one.ended) for one in seen.processes}
    functions = {one.pid: one.calls[0].function for one in seen.stacks if one.is_main}
    assert states == {
        rests.pid: ("S", False),
        dies.pid: ("X", True),
        stays_unreaped.pid: ("Z", False),
        stopped.pid: ("T", False),
    }
    assert functions[rests.pid] == functions[stopped.pid] == "rest"
    assert "Traceback" not in capfd.readouterr().err


def test_a_pid_that_was_given_away_meanwhile_is_told_as_ended():
    with child(SLEEPS) as process:
        now = processes.glance(process.pid)
        earlier = now._replace(stat=now.stat._replace(started=now.stat.started - 100, name="python-before"))

        (seen,) = processes.second_look({process.pid: earlier}, [process.pid])

    assert (seen.pid, seen.ended, seen.state, seen.name) == (process.pid, True, "X", "python-before")
    assert seen.tasks == []


def test_a_process_that_came_after_the_first_look_is_seen_as_it_is():
    with child(SLEEPS) as process:
        (seen,) = processes.second_look({}, [process.pid])

    assert (seen.pid, seen.ended, seen.looked) == (process.pid, False, 0.0)


def test_what_a_process_does_between_two_looks_is_measured():
    with child("while True: print('x' * 1000, flush=True)", stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: kernel.moved(process.pid)[1])
        before = {process.pid: processes.glance(process.pid)}
        wait_for(lambda: kernel.stat(process.pid).cpu > before[process.pid].stat.cpu)

        (seen,) = processes.second_look(before, [process.pid])

    assert seen.cpu > 0
    assert seen.written > 0
    assert seen.main_task.written > 0


@pytest.mark.parametrize("processor", sorted(os.sched_getaffinity(0))[:4])
def test_for_how_long_a_thread_has_not_run_is_told_by_the_clock_of_its_own_processor(processor):
    begun = time.monotonic()
    with child(f"import os; os.sched_setaffinity(0, {{{processor}}})\n{SLEEPS}") as process:
        asleep(process)
        time.sleep(0.5)

        (seen,) = processes.second_look({}, [process.pid])
        age = time.monotonic() - begun

    if seen.main_task.still is None:
        pytest.skip("needs a kernel that tells when a thread last ran (CONFIG_SCHED_DEBUG)")
    assert 0.4 <= seen.main_task.still <= age + 0.1


@pytest.fixture
def answering(tmp_path):
    """A process that can be asked for its stacks, and its recording."""
    (tmp_path / "recordings").mkdir()
    with child(ANSWERS.format(package=PACKAGE), tmp_path / "recordings") as process:
        asleep(process)
        (path,) = (tmp_path / "recordings").glob("*.rec")
        yield process_of(Facts(Recording(path), 0.0))


def test_where_ptrace_is_refused_a_recorded_process_gives_its_stacks_itself(tmp_path, answering):
    found = stack_dumps.own_stacks(answering, tmp_path)

    assert [one.is_main for one in found] == [True]
    assert [frame.function for frame in found[0].frames] == ["rest", "<module>"]
    assert kernel.stat(answering.pid).state == "S"


def test_a_recording_of_its_child_is_not_taken_for_its_own(tmp_path, answering):
    for number in range(20):
        (tmp_path / "recordings" / f"{NODE}.{answering.pid}.{70000 + number}.77.rec").touch()

    assert stack_dumps.own_stacks(answering, tmp_path)


def test_it_can_be_asked_again(tmp_path, answering):
    first = stack_dumps.own_stacks(answering, tmp_path)

    assert stack_dumps.own_stacks(answering, tmp_path) == first


def test_nobody_is_asked_whose_pid_was_another_process_when_it_was_recorded(tmp_path, answering):
    (path,) = (tmp_path / "recordings").glob("*.rec")
    (answers,) = (tmp_path / "recordings").glob("*.stacks")
    started = path.name.rsplit(".", 2)[1]
    for one in (path, answers):
        one.rename(one.with_name(one.name.replace(f".{started}.", f".{int(started) - 100}.")))

    assert stack_dumps.own_stacks(answering, tmp_path) == []
    time.sleep(0.2)
    (answers,) = (tmp_path / "recordings").glob("*.stacks")
    assert answers.stat().st_size == 0


def of_another_node(folder, process):
    """The same recording as another node would have it of its own process with this pid and start."""
    for one in (folder / "recordings").iterdir():
        one.rename(one.with_name(one.name.replace(f"{NODE}.", "another-node.", 1)))
    return msgspec.structs.replace(process, node="another-node")


def test_nobody_is_asked_whom_another_node_has_recorded(tmp_path, answering):
    theirs = of_another_node(tmp_path, answering)

    assert stack_dumps.own_stacks(theirs, tmp_path) == []
    assert stack_dumps.own_stacks(answering, tmp_path) == []  # the recording that it would lie beside is not there
    time.sleep(0.2)
    (answers,) = (tmp_path / "recordings").glob("*.stacks")
    assert answers.stat().st_size == 0


def test_a_look_asks_processes_of_its_own_node_alone(tmp_path, answering, monkeypatch):
    asked = []
    monkeypatch.setattr(look, "_own_stacks", lambda process, _: asked.append(process.node) or [])
    dumps = {answering.pid: stack_dumps.Dump([], stack_dumps.PTRACE)}

    look._asked(dumps, [msgspec.structs.replace(answering, node="another-node"), answering], tmp_path)

    assert asked == [NODE]


def test_nobody_is_asked_who_would_die_of_the_signal(tmp_path):
    (tmp_path / "recordings").mkdir()
    with child(SLEEPS) as process:
        asleep(process)
        name = f"{NODE}.1.{process.pid}.{kernel.stat(process.pid).started}"
        for ending in ("rec", "stacks"):
            (tmp_path / "recordings" / f"{name}.{ending}").touch()
        says_so = Process(node=NODE, pid=process.pid, parent=1, role="main", stack_signal=signal.SIGRTMIN + 11)

        found = stack_dumps.own_stacks(says_so, tmp_path)
        time.sleep(0.2)

        assert (found, process.poll()) == ([], None)


def test_a_process_that_is_gone_or_was_never_recorded_gives_no_stacks(tmp_path, answering):
    os.kill(answering.pid, signal.SIGKILL)
    wait_for(lambda: kernel.stat(answering.pid).state == "Z")

    assert stack_dumps.own_stacks(answering, tmp_path) == []
    assert stack_dumps.own_stacks(answering, tmp_path / "nowhere") == []
