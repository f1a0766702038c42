"""Under whatever conditions a program runs, its output, its errors and its code are the same with us and without.

Most of these need no real torch: recording begins when something of that name is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import TIMEOUT, environment

# What a program does that is recorded: children, threads, archives, an exception that it catches.
WORK = """
import io, multiprocessing, os, subprocess, sys, tarfile, threading
import torch

def work(start=None):
    seen = []
    thread = threading.Thread(target=seen.append, args=(1,))
    thread.start()
    thread.join()
    seen.append(subprocess.run([sys.executable, "-S", "-c", "raise SystemExit(4)"]).returncode)
    child = multiprocessing.get_context(start or "fork").Process(target=int)
    child.start()
    child.join()
    seen.append(child.exitcode)
    try:
        tarfile.open(fileobj=io.BytesIO(b"no archive at all" * 100))
    except tarfile.ReadError:
        seen.append("caught")
    return seen
"""
# By what is special: options of Python, and the program.
CASES: dict[str, tuple[list[str], str]] = {
    "nothing": ([], WORK + "print(work())"),
    "warnings are errors": (["-W", "error", "-bb"], WORK + "print(work())"),
    "no assertions and no docstrings": (["-OO"], WORK + "print(work())"),
    "development mode": (["-X", "dev", "-W", "error::ResourceWarning"], WORK + "print(work())"),
    "no site packages of the user": (["-s"], WORK + "print(work())"),
    "isolated": (["-I"], "import sys; print(sys.flags.isolated)"),
    "without site": (["-S"], "import sys; print(sorted(name for name in sys.modules if 'unstuck' in name))"),
    "spawned children": ([], WORK + "if __name__ == '__main__': print(work('spawn'))"),
    "a fork server": ([], WORK + "if __name__ == '__main__': print(work('forkserver'))"),
    "tracing and profiling": (
        [],
        WORK
        + """
counts = [0, 0]
def traced(frame, event, argument):
    counts[0] += 1
    return traced
def profiled(frame, event, argument):
    counts[1] += 1
sys.settrace(traced), threading.settrace(traced), sys.setprofile(profiled)
print(work())
sys.setprofile(None), sys.settrace(None)
print(counts[0] > 0, counts[1] > 0)
""",
    ),
    "finders of the user's": (
        [],
        """
import sys
class Old: pass
class Strict:
    def find_spec(self, name, path=None, target=None):
        if name == "blocked":
            raise ImportError("blocked " + name)
sys.meta_path[:0] = [Old(), Strict()]
"""
        + WORK
        + """
try:
    import blocked
except ImportError as error:
    print(error)
print(work())
""",
    ),
    "an import of the user's own": (
        [],
        """
import builtins
real, names = builtins.__import__, []
def ours(name, *args, **kwargs):
    names.append(name)
    return real(name, *args, **kwargs)
builtins.__import__ = ours
"""
        + WORK
        + "print(work(), 'torch' in names)",
    ),
    "modules that were deleted": (
        [],
        WORK
        + """
for name in [one for one in sys.modules if one.startswith(("torch", "multiprocessing", "tarfile", "threading"))]:
    del sys.modules[name]
import multiprocessing, tarfile, threading, torch
print(work())
""",
    ),
    "a module that is loaded again": (
        [],
        WORK + "from importlib import reload\nprint(reload(tarfile) is tarfile, reload(torch) is torch, work())",
    ),
    "all modules walked through": (
        [],
        WORK + "print(all(getattr(one, '__spec__', 1) is not 2 for one in list(sys.modules.values())), work())",
    ),
    "a fork in a thread": (
        [],
        WORK
        + """
def fork():
    child = os.fork()
    if child == 0:
        print(work(), flush=True)
        os._exit(3)
    print(os.waitpid(child, 0)[1] >> 8, flush=True)
thread = threading.Thread(target=fork)
thread.start()
thread.join()
""",
    ),
    "an end without goodbye": ([], WORK + "print(work(), flush=True)\nos._exit(9)"),
    "a signal": ([], WORK + "print(work(), flush=True)\nos.kill(os.getpid(), 15)"),
    "a code": ([], WORK + "print(work())\nsys.exit(7)"),
    "a code that is a text": ([], WORK + "sys.exit('the end')"),
    "an exception": ([], WORK + "work()\nraise LookupError('nobody caught this')"),
    "an exception in a thread": (
        [],
        WORK + "thread = threading.Thread(target=lambda: {}['key'], name='T')\nthread.start()\nthread.join()",
    ),
    "an exception whose text cannot be had": (
        [],
        WORK + "class Silent(Exception):\n    def __str__(self):\n        raise ValueError\nraise Silent(1)",
    ),
    "hooks that are Python's own": (
        [],
        WORK
        + """
print(sys.excepthook is sys.__excepthook__, threading.excepthook is threading.__excepthook__, sys.excepthook.__name__)
""",
    ),
    "a hook of the user's": (
        [],
        """
import sys
def hook(kind, error, trace):
    print("mine", kind.__name__, error)
    sys.__excepthook__(kind, error, trace)
sys.excepthook = hook
"""
        + WORK
        + "raise LookupError('mine')",
    ),
    "few descriptors": (
        [],
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))\n" + WORK + "print(work())",
    ),
    "small files only": (
        [],
        "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n" + WORK + "print(work())",
    ),
    "descriptors that are closed": ([], WORK + "print(work())\nos.closerange(3, 2048)\nprint(work())"),
    "streams that are closed": ([], WORK + "print(work(), flush=True)\nsys.stderr.close()\nsys.stdin.close()"),
    "signals that are all taken": (
        [],
        """
import os, signal
got = []
for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1):
    signal.signal(number, lambda number, frame: got.append(number))
"""
        + WORK
        + "print(work())\nos.kill(os.getpid(), signal.SIGRTMIN + 11)\nprint(len(got))",
    ),
    "a signal that is taken later": (
        [],
        WORK
        + """
import signal
got = []
signal.signal(signal.SIGRTMIN + 11, lambda number, frame: got.append(number))
print(work())
os.kill(os.getpid(), signal.SIGRTMIN + 11)
print(len(got))
""",
    ),
    "a fault handler of the user's": (
        [],
        "import faulthandler, sys\nfaulthandler.enable()\n" + WORK + "print(work(), faulthandler.is_enabled())",
    ),
    "threads and descriptors": ([], WORK + "print(work(), threading.active_count())"),
    "an interpreter within": (
        [],
        WORK
        + """
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
one = interpreters.create()
interpreters.run_string(one, "import json, sys; print('within', 'torch' in sys.modules, flush=True)")
interpreters.destroy(one)
print(work())
""",
    ),
    "an alarm": (
        [],
        WORK
        + """
import signal
class TimeUp(Exception): pass
def up(number, frame):
    raise TimeUp
signal.signal(signal.SIGALRM, up)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    while True:  # nothing that starts threads or destroys files: Python itself loses an alarm in there, now and then
        os.path.join("a", "b")
except TimeUp:
    print("time is up")
""",
    ),
}


def both(folder: Path, options: list[str], text: str, torch: str | None = "") -> list[tuple[int, str, str]]:
    """Code, output and errors: plain, then recorded. `torch`: the text of one that stands in for the real one."""
    (folder / "recordings").mkdir()
    (folder / "train.py").write_text(text)
    if torch is not None:
        (folder / "torch.py").write_text(torch)
    found = []
    for recordings in (None, folder / "recordings"):
        ended = subprocess.run(
            [sys.executable, *options, "train.py"], env=environment(recordings), cwd=folder, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        found.append((ended.returncode, ended.stdout, ended.stderr))
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_program_ends_as_without_us(case: str, tmp_path: Path) -> None:
    plain, recorded = both(tmp_path, *CASES[case])
    assert recorded == plain


def test_these_programs_are_recorded(tmp_path: Path) -> None:
    """Else all of the above would say nothing."""
    both(tmp_path, *CASES["nothing"])
    assert [name for name in os.listdir(tmp_path / "recordings") if name.endswith(".rec")]


TRAIN = """
import os, sys
import torch
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        return torch.ones(2) * index

def train(workers=0, loader=None):
    total = 0.0
    for batch in loader or DataLoader(Rows(), batch_size=4, num_workers=workers):
        total += float(batch.sum())
    print(workers, total, flush=True)
"""
TRAINED: dict[str, tuple[list[str], str]] = {
    "warnings are errors": (["-W", "error", "-bb"], TRAIN + "train(), train(1)"),
    "no assertions": (["-OO"], TRAIN + "train(), train(1)"),
    "few descriptors": (
        [],
        TRAIN + "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))\ntrain(), train(1)",
    ),
    "modules that were deleted": (
        [],
        TRAIN
        + """
for name in [one for one in sys.modules if one.startswith("torch.utils.data")]:
    del sys.modules[name]
import torch.utils.data as again
train(loader=again.DataLoader(Rows(), batch_size=4)), train(1)
""",
    ),
    "an exception that asks for nothing": (
        [],
        TRAIN
        + """
class Counted(Exception):
    asked = 0
    def __str__(self):
        Counted.asked += 1
        return "text"
    def __bool__(self):
        Counted.asked += 1
        return True
class Broken(Rows):
    def __getitem__(self, index):
        raise Counted(index)
for epoch in range(3):
    try:
        train(loader=DataLoader(Broken(), batch_size=4))
    except Counted:
        pass
print(Counted.asked)
""",
    ),
}


@pytest.mark.scenario
@pytest.mark.parametrize("case", TRAINED)
def test_a_training_ends_as_without_us(case: str, tmp_path: Path) -> None:
    plain, recorded = both(tmp_path, *TRAINED[case], torch=None)
    assert recorded == plain
