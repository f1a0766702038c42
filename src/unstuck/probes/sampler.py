"""Where the time of live processes goes, by py-spy's sampler.

One py-spy for each process that nobody else of the run has started: it follows the children, also those that come
while it looks, as the workers of the next epoch do. It pauses nobody: in a trial it met what it would have met, and
a sampler that is killed while it holds a process would leave that process stopped.
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..evidence.live import Frame, Sampled
from .stack_dumps import py_spy

Tell = Callable[[str], None]
RATE = 50  # samples a second: 20 ms is fine enough for what takes a tenth of the time, and costs the training little
SPARE = 10.0  # seconds for py-spy to start and to write
FLUSH = 3.0  # the same for writing alone, once it was told to stop
# Before Python 3.11 a thread that is not paused is told by Python's own number of it.
_HEAD = re.compile(r"thread \((?P<tid>\d+|0x[0-9A-Fa-f]+)\): ?(?P<name>[^;]*);")
MAIN = "MainThread"
_PROCESS = re.compile(r'(?:^|;)process (\d+):"')
_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)$")


class Sampler(NamedTuple):
    """A py-spy that is at work."""

    pid: int
    path: Path
    process: subprocess.Popen[bytes]


def sample(pids: Sequence[int], seconds: float, tell: Tell) -> list[Sampled] | None:
    """Stacks of these processes and all below them, with how often each was met. None: py-spy could not look."""
    program = py_spy()
    if program is None:
        return None
    with tempfile.TemporaryDirectory(prefix="unstuck-") as folder:
        started: list[Sampler] = []
        try:
            with _uninterrupted():
                for pid in pids:
                    path = Path(folder, str(pid))
                    started.append(Sampler(pid, path, _start(program, pid, seconds, path)))
            _wait(started, seconds, tell)
        finally:  # also on Ctrl-C
            for one in started:
                one.process.kill()
                one.process.wait()
        found = [stack for one in started for stack in parse(one.pid, one.path)]
    return found or None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """A Ctrl-C waits until everybody who was started is known, or one would be left behind."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _start(program: str, pid: int, seconds: float, path: Path) -> subprocess.Popen[bytes]:
    command = [
        program, "record", "--pid", str(pid), "--duration", str(max(round(seconds), 1)), "--rate", str(RATE),
        "--format", "raw", "--idle", "--threads", "--subprocesses", "--nonblocking", "--full-filenames",
        "--output", str(path),
    ]  # fmt: skip
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _wait(started: list[Sampler], seconds: float, tell: Tell) -> None:
    began = time.monotonic()
    told = False
    while any(one.process.poll() is None for one in started):
        passed = time.monotonic() - began
        if passed > seconds + SPARE + FLUSH:
            return
        if passed > seconds + SPARE and not told:
            told = True
            for one in started:
                one.process.send_signal(signal.SIGINT)  # it writes what it has
        tell(f"sampling where the time goes, {min(passed, seconds):.0f} of {seconds:.0f} s")
        time.sleep(0.1)


def parse(pid: int, path: Path) -> list[Sampled]:
    """py-spy's raw format: processes from the outermost on, the thread, its frames alike, and a count."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [one for line in lines if (one := _sampled(pid, line)) is not None]


def _sampled(pid: int, line: str) -> Sampled | None:
    stack, _, count = line.rpartition(" ")
    thread = _HEAD.search(stack)
    if thread is None or not count.isdigit():
        return None
    chain = [int(one) for one in _PROCESS.findall(stack[: thread.start()])] or [pid]
    calls = stack[thread.end() :].split(";")
    return Sampled(
        pid=chain[-1],
        parent=chain[-2] if len(chain) > 1 else 0,
        tid=_tid(chain[-1], thread["tid"], thread["name"]),
        thread=thread["name"],
        count=int(count),
        seconds=int(count) / RATE,
        frames=[_frame(call) for call in reversed(calls)],
    )


def _tid(pid: int, told: str, name: str) -> int:
    """The main thread's is the process's; any other's that is not known is Python's own."""
    if not told.startswith("0x"):
        return int(told)
    return pid if name == MAIN else int(told, 16)


def _frame(text: str) -> Frame:
    matched = _FRAME.match(text)
    if matched is None:
        return Frame(file="", function=text)
    return Frame(file=matched["file"], line=int(matched["line"] or 0), function=matched["function"])
