"""Ready to be looked at: a recorded process writes its stacks down when asked, each into a file of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running import TIMEOUT, Run

Recorded = Callable[..., Run]
Started = Callable[..., Run]

ASK = """
import glob, os, signal, sys, time
import torch
from torch.utils.data import DataLoader, get_worker_info

sys.path.insert(0, {source!r})
from unstuck.inside import format as f

FOLDER = {folder!r}

def path_of(pid, kind):
    (path,) = [one for one in glob.glob(f"{{FOLDER}}/*.{{kind}}") if one.rsplit(".", 3)[1] == str(pid)]
    return path

def signal_of(pid):
    with open(path_of(pid, "rec"), "rb") as file:
        return int.from_bytes(file.read(f.H_WORDS * 8)[f.H_STACK_SIGNAL * 8 :][:8], "little")

def said_by(pid):
    return open(path_of(pid, "stacks")).read()

def asked(pid):
    "What a process says of itself, as the watcher would ask it."
    before = len(said_by(pid))
    os.kill(pid, signal_of(pid))
    for turn in range(2000):
        time.sleep(0.02)
        if "most recent call first" in said_by(pid)[before:]:
            return said_by(pid)[before:]
    return "no answer"
"""


@pytest.fixture
def asking(tmp_path: Path) -> str:
    """The beginning of a program that asks processes for their stacks."""
    source = str(Path(__file__).parents[2] / "src")
    return ASK.format(source=source, folder=str(tmp_path / "recordings"))


def leftovers(run: Run) -> list[str]:
    return sorted(path.name for path in run.folder.glob("*.stacks"))


def test_a_main_process_writes_its_stacks_down_when_asked_and_goes_on(started: Started, asking: str) -> None:
    run = started(
        asking
        + """
def here_it_stands():
    return asked(os.getpid())

print(here_it_stands())
"""
    )
    assert "in here_it_stands" in run.succeeded().out
    # then what was asked for is kept
    (name,) = leftovers(run)
    assert name.replace(".stacks", ".rec") == run.main.recording.path.name
    # and nobody asks a process that has ended
    assert run.main.process().stack_signal == 0


def test_a_file_that_stayed_empty_is_gone_in_the_end(recorded: Recorded) -> None:
    run = recorded("""
        import glob, os
        from torch.utils.data import DataLoader
        for batch in DataLoader(list(range(8)), num_workers=2):
            pass
        here = os.path.dirname(os.path.realpath(__file__)) + "/recordings"
        print(len([one for one in glob.glob(f"{here}/*.stacks") if one.rsplit(".", 3)[1] == str(os.getpid())]))
    """).succeeded()
    assert run.out == "1\n"
    assert leftovers(run) == []
    assert len(run.workers) == 2


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_answers_from_its_first_batch_on_into_its_own_file(started: Started, asking: str, method: str) -> None:
    run = started(
        asking
        + f"""
class Slow:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        if index == 4:
            time.sleep(600)
        return index

if __name__ == "__main__":
    loader = DataLoader(Slow(), batch_size=2, num_workers=1, multiprocessing_context={method!r})
    iterator = iter(loader)
    next(iterator), next(iterator)
    worker = iterator._workers[0].pid
    for turn in range(100):  # until it has come to its slow sample
        said = asked(worker)
        if "__getitem__" in said:
            break
        time.sleep(0.1)
    assert "__getitem__" in said, said
    assert signal_of(os.getpid()) and said_by(os.getpid()) == ""
    worker_said = len(said_by(worker))
    assert "most recent call first" in asked(os.getpid())
    assert len(said_by(worker)) == worker_said
    print("each its own", flush=True)
    os.kill(worker, signal.SIGKILL)
    os._exit(0)
""",
    )
    assert run.out == "each its own\n", run.err
    assert len(leftovers(run)) == 2


def test_a_forked_child_that_records_has_its_own_file_and_says_so_only_then(started: Started, asking: str) -> None:
    run = started(
        asking
        + """
inside = sys.modules["_unstuck_inside.core.process"]
asked(os.getpid())
before = said_by(os.getpid())
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    # Not recorded yet: the handler it was born with must not write into its parent's file.
    os.kill(os.getpid(), inside.stacks.signal)
    inside.process.recording(1)
    os.write(writing, b"!")
    time.sleep(600)
    os._exit(0)
os.read(reading, 1)
assert said_by(child) == ""
assert "most recent call first" in asked(child)
assert said_by(os.getpid()) == before
print(signal_of(child) == signal_of(os.getpid()))
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""
    )
    assert run.succeeded().out == "True\n"


def test_a_signal_that_somebody_uses_is_left_to_them(started: Started, asking: str) -> None:
    # given a handler of Python's and one that only the kernel knows of, on the first two choices
    run = started(
        """
import faulthandler, signal
first = signal.SIGRTMIN + 11
signal.signal(first, lambda *_: print("mine", flush=True))
faulthandler.register(first + 1, file=open("theirs", "w"))
"""
        + asking
        + """
print(signal_of(os.getpid()) - first)
os.kill(os.getpid(), first)
os.kill(os.getpid(), first + 1)
print("train.py" in open("theirs").read())
"""
    )
    assert run.succeeded().out == "2\nmine\nTrue\n"


def test_descriptors_are_at_most_one_more_and_none_of_the_users_is_touched(started: Started) -> None:
    program = """
import os, sys
import torch
print(len(os.listdir("/proc/self/fd")))
os.closerange(3, 4096)                     # as daemons do
kept = os.open("kept", os.O_RDWR | os.O_CREAT)
for number in range(1000):
    os.dup2(kept, 3 + number)              # every number is the user's now
if os.fork() == 0:
    inside = sys.modules.get("_unstuck_inside.core.process")
    inside and inside.process.recording(1)
    same = [os.fstat(3 + number).st_ino == os.fstat(kept).st_ino for number in range(1000)]
    print(all(same), os.fstat(kept).st_size, flush=True)
    os._exit(0)
os.wait()
"""
    plain = started(program, recorded=False).succeeded().out.splitlines()
    found = started(program).succeeded().out.splitlines()
    assert found[1] == plain[1] == "True 0"
    # the mapping itself keeps one before Python 3.13
    assert int(found[0]) - int(plain[0]) <= (1 if sys.version_info >= (3, 13) else 2)


def test_nothing_is_registered_where_the_file_is_refused(recorded: Recorded) -> None:
    # given a folder that stands where the file would
    run = recorded("""
        import os, sys
        here = sys.modules["_unstuck_inside.core.process"]
        pid = os.fork()
        if pid == 0:
            name = f"{os.uname().nodename}.{os.getppid()}.{os.getpid()}.{here.started_ticks()}.stacks"
            os.mkdir(f"{here.process.folder}/{name}")
            words = here.process.recording(1).words
            print(words[here.f.H_STACK_SIGNAL], flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
    """)
    assert run.succeeded().out == "0\n"


def until(true: Callable[[], object], seconds: float = TIMEOUT) -> None:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)


def test_a_killed_process_can_be_read_and_its_empty_file_does_no_harm(recorded: Recorded, tmp_path: Path) -> None:
    out = tmp_path / "recordings" / "out"

    def kill(pid: int) -> None:
        until(lambda: out.exists() and out.read_text())
        os.killpg(pid, signal.SIGKILL)

    run = recorded(
        """
        import time
        from torch.utils.data import DataLoader
        for batch in DataLoader(list(range(1000)), num_workers=1):
            print("batch", flush=True)
            time.sleep(0.05)
        """,
        during=kill,
    )
    assert run.code == -signal.SIGKILL
    assert run.main.process().stack_signal > 0
    assert len(run.processes) == 2
