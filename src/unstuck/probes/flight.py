"""Asks live ranks for what torch's Flight Recorder has: each answers with a file beside its recording."""

from __future__ import annotations

import os
import shutil
import struct
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..inside import format as f
from ..model.evidence import Evidence
from . import kernel

PATIENCE = 2.0  # seconds; an answer takes a fortieth of that, but the machine may be busy
SILENT = "no answer within two seconds: somebody holds the lock of its interpreter"


def ask(pids: Iterable[int], folder: Path) -> dict[int, str]:
    """Have those among them that can be asked write it down now. For each that did not: why."""
    asked = {pid: answer for pid in pids if (answer := _asked(pid)) is not None}
    until = time.monotonic() + PATIENCE
    waiting = dict(asked)
    while waiting and time.monotonic() < until:
        time.sleep(0.02)
        waiting = {pid: (flight, age) for pid, (flight, age) in waiting.items() if _age(flight) == age}
    for flight, _ in asked.values():
        _bring_home(flight, folder / "recordings")
    return dict.fromkeys(waiting, SILENT)


def added(evidence: Evidence, refused: dict[int, str]) -> Evidence:
    """With the reason at each that did not answer."""
    if not refused or evidence.recording is None:
        return evidence
    recording = [
        msgspec.structs.replace(one, trace_refused=refused[one.pid]) if one.pid in refused else one
        for one in evidence.recording
    ]
    return msgspec.structs.replace(evidence, recording=recording)


def _asked(pid: int) -> tuple[Path, int] | None:
    """Where its answer will be, and of when the one before is. None: it has no process group, or is not recorded."""
    for name in kernel.mapped(pid, ".rec"):
        path = Path(name)
        pipe = _pipe(path, pid)
        if pipe is None:
            continue
        flight = path.with_suffix(".flight")
        before = _age(flight)
        try:
            if not os.readlink(pipe).startswith("pipe:"):  # the user's program has closed what it does not know
                continue
            end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(end, b"?")
            finally:
                os.close(end)
        except OSError:
            continue
        return flight, before
    return None


def _pipe(path: Path, pid: int) -> str | None:
    try:
        with path.open("rb") as file:
            words = struct.unpack(f"<{f.H_WORDS}Q", file.read(f.H_WORDS * f.WORD))
    except (OSError, struct.error):
        return None
    known = words[f.H_MAGIC] == f.MAGIC and words[f.H_PID] == pid and words[f.H_ASK]
    return f"/proc/{pid}/fd/{words[f.H_ASK] - 1}" if known else None


def _age(flight: Path) -> int:
    try:
        return flight.stat().st_mtime_ns
    except OSError:
        return 0


def _bring_home(flight: Path, home: Path) -> None:
    """Recordings may be written elsewhere than the run folder."""
    if flight.parent == home or not home.is_dir():
        return
    half = home / f".{flight.name}"
    try:
        shutil.copy2(flight, half)
        half.replace(home / flight.name)
    except OSError:
        return
