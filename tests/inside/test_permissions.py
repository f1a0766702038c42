"""Who may trace a recorded process: its run's watcher, and nobody else."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from running import TIMEOUT, Run, environment, write

Started = Callable[..., Run]

PTRACER = """
import ctypes, os, sys
import torch
stacks = sys.modules["_unstuck_inside.core.stacks"].stacks
asked = []
class Spy:
    def __init__(self, real):
        self.real = real
    def __call__(self, *arguments):
        asked.append((os.getpid(), *arguments[:2]))
        return self.real(*arguments)
print(stacks.prctl is not None, flush=True)
"""


def test_the_watcher_is_permitted_to_trace_and_again_in_every_fork(started: Started) -> None:
    # given a watcher; this very process will do
    run = started(
        PTRACER
        + """
stacks.prctl = Spy(stacks.prctl)
pid = os.fork()
if pid == 0:
    print(asked == [(os.getpid(), 0x59616D61, int(os.environ["UNSTUCK_WATCHER_PID"]))], flush=True)
    os._exit(0)
os.waitpid(pid, 0)
""",
        variables={"UNSTUCK_WATCHER_PID": str(os.getpid())},
    )
    assert run.succeeded().out == "True\nTrue\n"


@pytest.mark.parametrize("variables", [{}, {"UNSTUCK_WATCHER_PID": "no number"}])
def test_without_a_watcher_nobody_is_permitted_anything(started: Started, variables: dict[str, str]) -> None:
    assert started(PTRACER, variables=variables).succeeded().out == "False\n"


def test_nothing_imports_ctypes_but_torch(started: Started, tmp_path: Path) -> None:
    # given a library called torch that does not
    (tmp_path / "torch.py").write_text("")
    run = started(
        "import sys, torch; print('ctypes' in sys.modules)", variables={"UNSTUCK_WATCHER_PID": str(os.getpid())}
    )
    assert run.succeeded().out == "False\n"


def yama() -> int:
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except OSError:
        return 0


@pytest.mark.skipif(yama() != 1 or os.geteuid() == 0, reason="needs Yama's ptrace_scope=1 and an ordinary user")
def test_under_yama_a_watcher_may_attach_to_what_is_not_its_child(tmp_path: Path) -> None:
    script = write(tmp_path / "train.py", "import torch, time; print('here', flush=True); time.sleep(60)")
    known = environment(tmp_path, UNSTUCK_WATCHER_PID=str(os.getpid()))
    shell = ["/bin/sh", "-c", '"$@" & echo $!; wait', "sh", sys.executable, str(script)]
    with subprocess.Popen(shell, env=known, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        child.stdout.readline()
        libc = ctypes.CDLL(None, use_errno=True)
        attached = libc.ptrace(16, grandchild, 0, 0)
        os.killpg(child.pid, signal.SIGKILL)
    assert attached == 0


@pytest.mark.scenario
def test_a_watcher_started_from_inside_is_named_to_all_that_come_after(tmp_path: Path) -> None:
    # given a watcher that only says who it is
    (tmp_path / "unstuck").mkdir()
    (tmp_path / "unstuck" / "__init__.py").write_text("")
    (tmp_path / "unstuck" / "watching.py").write_text(
        f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    )
    script = write(
        tmp_path / "train.py",
        """
        import os, time
        import torch
        print(os.environ["UNSTUCK_WATCHER_PID"])
        time.sleep(1)
        """,
    )
    known = environment(tmp_path) | {"UNSTUCK_RUNS": str(tmp_path / "runs"), "UNSTUCK_WATCHER": sys.executable}
    known |= {"UNSTUCK_PYTHONPATH": str(tmp_path)}
    del known["UNSTUCK_RECORDINGS"]
    ended = subprocess.run(
        [sys.executable, script], env=known, capture_output=True, text=True, timeout=TIMEOUT, check=True
    )
    until = time.monotonic() + TIMEOUT
    while not (tmp_path / "pid").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert ended.stdout.strip() == (tmp_path / "pid").read_text()
