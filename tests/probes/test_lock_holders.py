"""Who holds a lock file, by the kernel: whoever has it open with a lock, wherever that process lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kept import evidence_of
from stuck import wait_for
from unstuck.diagnose import report_on
from unstuck.evidence.finding import Finding
from unstuck.evidence.live import Awaited, Frame, Holder, Stack
from unstuck.probes import stack_dumps, waits

HOLD = """
import fcntl, os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(descriptor, fcntl.LOCK_EX)
if sys.argv[2:] and os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
time.sleep(600)
"""


@contextmanager
def held(path: Path, *more: str, inside: tuple[str, ...] = ()) -> Iterator[int]:
    """Another process holds the lock, until its end. What it says is its pid, as it sees it."""
    command = [*inside, sys.executable, "-c", HOLD, str(path), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        try:
            yield pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def awaited(path: str, lock: str = "UnixFileLock") -> Awaited:
    """What this process would be told to wait for, if it asked for that lock."""
    known = {"lock_filename": f'"{path}"', "self": f"<{lock} at 0x7f>"}
    frames = [Frame("/env/site-packages/filelock/_api.py", 9, "acquire", locals=known)]
    found = waits.awaited_lock(Stack(os.getpid(), os.getpid(), frames=frames), None)
    assert found is not None
    return found


def test_the_holder_is_the_process_that_has_it_open_with_a_lock(tmp_path):
    with held(tmp_path / "a.lock") as pid:
        assert [one.pid for one in awaited(str(tmp_path / "a.lock")).holders] == [pid]


def test_a_lock_stays_with_the_child_of_a_process_that_has_ended(tmp_path):
    with held(tmp_path / "a.lock", "fork") as pid:
        wait_for(lambda: [one.pid for one in awaited(str(tmp_path / "a.lock")).holders] == [pid])


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces of their own need root")
def test_a_holder_in_another_container_sees_the_file_elsewhere_and_is_found(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    mounted = f'mount --bind {tmp_path}/here {tmp_path}/there && exec "$@"'
    inside = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mounted, "sh")

    with held(tmp_path / "there" / "a.lock", inside=inside) as pid:
        (holder,) = awaited(str(tmp_path / "here" / "a.lock")).holders

    assert pid == 1  # of its own namespace
    assert holder.pid != pid


def test_a_lock_that_nobody_holds_has_no_holder_and_says_what_was_not_seen(tmp_path, monkeypatch):
    (tmp_path / "a.lock").touch()
    monkeypatch.setattr(waits, "_namespace", lambda: "pid:[1]")
    inside = awaited(str(tmp_path / "a.lock"))
    monkeypatch.setattr(waits, "_file_system", lambda *_: "nfs4")
    shared = awaited(str(tmp_path / "a.lock"))

    assert (inside.holders, inside.unseen) == ([], "processes outside of this container cannot be seen")
    assert (shared.holders, shared.unseen) == ([], "it is on nfs4, and another machine may hold it")


def test_a_path_that_was_cut_off_is_asked_for_again_and_else_not_told(tmp_path, monkeypatch):
    whole = str(tmp_path / ("x" * 150) / "a.lock")
    shown = f"{whole[:125]}..."
    monkeypatch.setattr(stack_dumps, "whole_local", lambda *_: f'"{whole}"')
    asked = awaited(shown)
    monkeypatch.setattr(stack_dumps, "whole_local", lambda *_: "")
    silent = awaited(shown)

    assert asked.name == whole
    assert (silent.name, silent.unseen) == ("", "its path is not known")


def test_a_lock_that_is_held_by_existing_has_no_holder_in_the_kernel(tmp_path):
    (tmp_path / "a.lock").touch()

    found = awaited(str(tmp_path / "a.lock"), "SoftFileLock")

    assert (found.soft, found.holders) == (True, [])


def finding(lock: Awaited, *, member: bool = False) -> Finding:
    run = evidence_of("hf-filelock", "found")
    changed = []
    for seen in run.processes or ():
        held = lock if seen.lock is not None else None
        if member and held is not None:
            held = msgspec.structs.replace(lock, holders=[Holder((run.processes or [])[-1].pid)])
        changed.append(msgspec.structs.replace(seen, lock=held))
    (one,) = report_on(msgspec.structs.replace(run, processes=changed)).findings
    assert one.rule == "hf-filelock"
    return one


def commands(one: Finding) -> str:
    return " ".join(command for remedy in (one.remedy, *one.alternatives) for command in remedy.commands)


def test_a_holder_that_belongs_to_the_run_is_never_to_be_killed():
    one = finding(Awaited("lock file", "/cache/a.lock"), member=True)

    assert "of this run" in one.cause
    assert "kill" not in commands(one)


def test_a_stranger_that_holds_it_may_be_ended():
    one = finding(Awaited("lock file", "/cache/a.lock", holders=[Holder(99)]))

    assert one.remedy.commands == ["ps -fp 99"]
    assert [each.text for each in one.alternatives if "kill 99" in each.commands] == [
        "End pid 99, if it is left over from an earlier run."
    ]


@pytest.mark.parametrize("name", ["/cache/a.lock", ""])
def test_where_the_holder_is_unknown_that_is_said_and_nothing_is_to_be_removed(name):
    one = finding(Awaited("lock file", name, unseen="it is on nfs4, and another machine may hold it"))

    assert "its holder is unknown" in one.cause
    assert any("it is on nfs4, and another machine may hold it" in line for line in one.seen)
    assert "rm " not in commands(one)


def test_a_file_whose_existence_is_the_lock_may_be_removed_once_its_maker_has_ended():
    one = finding(Awaited("lock file", "/cache/a.lock", soft=True))

    assert "rm " not in " ".join(one.remedy.commands)
    assert [each.text for each in one.alternatives if "rm /cache/a.lock" in each.commands] == [
        "Remove the file, if that process has ended."
    ]
