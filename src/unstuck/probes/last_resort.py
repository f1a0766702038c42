"""Stacks where ptrace is refused: a recorded process writes its own, when asked by the signal it has registered."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import IO

from ..evidence.live import Frame, Stack
from ..evidence.process import Process
from ..safe_files import open_plain
from . import kernel
from .stacks import OURS

PATIENCE = (
    1.0  # seconds for the answer: a process that is stopped, or inside a system call that cannot be left, has none
)
LONGEST = 5.0  # seconds for all of it
LARGEST = 16 << 20  # bytes of an answer
_THREAD = re.compile(r"^(?P<current>Current thread|Thread) 0x(?P<id>[0-9a-f]+)(?: \[(?P<name>.*)\])?")
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')


def ask(process: Process, folder: Path) -> list[Stack]:
    """The stacks of one recorded process, by its own hand. Empty where it cannot be asked, or does not answer.

    An unregistered process would die of the signal: it is sent only if the recording says registered, for this very
    process, and the kernel says caught, at this moment. It is one of those that a recorded process registers: a damaged
    or forged recording can ask for no other.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return []
    try:
        seen = kernel.stat(process.pid)
        registered = signal.SIGRTMIN <= process.stack_signal <= signal.SIGRTMAX
        if seen is None or not registered or not _caught(process.pid, process.stack_signal):
            return []
        recording = next((folder / "recordings").glob(f"*.{process.pid}.{seen.started}.rec"), None)
        if recording is None:
            return []
        with os.fdopen(open_plain(recording.with_suffix(".stacks")), "rb") as answer:
            if os.fstat(answer.fileno()).st_uid != kernel.status(process.pid).uid:  # somebody else's word about it
                return []
            before = os.fstat(answer.fileno()).st_size
            signal.pidfd_send_signal(handle, process.stack_signal)
            return parse(process.pid, _answer(answer, before))
    except OSError:
        return []
    finally:
        os.close(handle)


def _caught(pid: int, number: int) -> bool:
    return bool(kernel.status(pid).caught >> (number - 1) & 1)


def _answer(file: IO[bytes], before: int) -> str:
    """What was added, once nothing more is."""
    until = time.monotonic() + PATIENCE
    size = before
    while time.monotonic() < until:
        time.sleep(0.05)
        now = os.fstat(file.fileno()).st_size
        if now == size > before:
            break
        size = now
    file.seek(before)
    return file.read(LARGEST).decode("utf-8", "replace")


def parse(pid: int, text: str) -> list[Stack]:
    """faulthandler's format. The thread that wrote is the main one: the kernel gives it a process's signals first."""
    found: list[Stack] = []
    tid = 0
    frames: list[Frame] = []
    for line in [*text.splitlines(), "Thread 0x0"]:
        thread, frame = _THREAD.match(line), _FRAME.match(line)
        if thread is not None:
            if frames:
                found.append(Stack(pid=pid, tid=tid, frames=frames, before=frames))
            tid, frames = pid if thread["current"] != "Thread" else int(thread["id"], 16), []
        elif frame is not None and OURS not in frame["file"]:
            frames.append(Frame(file=frame["file"], line=int(frame["line"]), function=frame["function"]))
    return found
