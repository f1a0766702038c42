"""Asks live ranks for what torch's Flight Recorder has: each answers with a file beside its recording."""

from __future__ import annotations

import os
import stat
import struct
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from ..evidence import Evidence
from ..evidence.distributed import Collective
from ..evidence.process import Process
from ..inside import format as f
from ..recordings.distributed import collectives
from ..safe_files import open_plain
from ..wording.left_out import left_out
from . import kernel, owners

PATIENCE = 2.0  # seconds; an answer takes a fortieth of that, but the machine may be busy
SILENT = "no answer within two seconds: a thread of it holds the GIL"


class Answer(msgspec.Struct, frozen=True):
    """What one rank has told, with times since the epoch."""

    collectives: list[Collective]
    at: float


class Answers(msgspec.Struct, frozen=True):
    """Of those that could be asked, by pid: what each has told, or why it has not."""

    told: dict[int, Answer] = {}
    refused: dict[int, str] = {}


def ask(pids: Iterable[int]) -> Answers:
    """Have those among them that can be asked write it down now, and read it where they put it.

    Each is asked with the rights of its own user: both the pipe and the file are in that user's hands.
    """
    told: dict[int, Answer] = {}
    refused: dict[int, str] = {}
    for owner, every in owners.grouped(pids).items():
        mine = every if owner is not None else [pid for pid in every if kernel.stat(pid) is not None]
        try:
            found = owners.as_owner(owner, lambda mine=mine: _ask(mine), Answers)  # type: ignore[misc]
        except owners.Refused as error:
            found = Answers(refused=dict.fromkeys(mine, str(error)))
        told |= found.told
        refused |= found.refused
    return Answers(told, refused)


def added(evidence: Evidence, answers: Answers) -> Evidence:
    """With what each has told, or the reason at each that did not answer."""
    if not (answers.told or answers.refused) or evidence.recording is None:
        return evidence
    here = os.uname().nodename
    recording = [
        _added(process, answers, evidence.run.started) if process.node == here else process
        for process in evidence.recording
    ]
    return msgspec.structs.replace(evidence, recording=recording)


def _added(process: Process, answers: Answers, started: float) -> Process:
    """Recordings may be written elsewhere than in the run folder: what is beside that one is newer."""
    answer, reason = answers.told.get(process.pid), answers.refused.get(process.pid)
    if reason is not None:
        process = msgspec.structs.replace(process, trace_refused=reason)
    if answer is None or not process.alive:
        return process
    shifted = [msgspec.structs.replace(one, at=round(one.at - started, 6)) for one in answer.collectives]
    return msgspec.structs.replace(process, collectives=shifted, traced=round(answer.at - started, 3))


def _ask(pids: Sequence[int]) -> Answers:
    asked = {pid: answer for pid in pids if (answer := _asked(pid)) is not None}
    until = time.monotonic() + PATIENCE
    waiting = dict(asked)
    while waiting and time.monotonic() < until:
        time.sleep(0.02)
        waiting = {pid: (flight, age) for pid, (flight, age) in waiting.items() if _age(flight) == age}
    told: dict[int, Answer] = {}
    refused = dict.fromkeys(waiting, SILENT)
    for pid, (flight, _) in asked.items():
        try:
            found, at = collectives(flight, 0.0)
        except (OSError, ValueError, RecursionError) as error:
            refused[pid] = left_out(flight, error)
            continue
        if at is not None:
            told[pid] = Answer(found, at)
    return Answers(told, refused)


def _asked(pid: int) -> tuple[Path, int] | None:
    """Where its answer will be, and of when the one before is. None: it has no process group, or is not recorded."""
    for name in kernel.mapped(pid, ".rec"):
        path = Path(name)
        pipe = _pipe(path, pid)
        if pipe is None:
            continue
        flight = path.with_suffix(".flight")
        before = _age(flight)
        if _written_to(pipe):
            return flight, before
    return None


def _written_to(pipe: str) -> bool:
    """The user's program may have closed what it does not know, and have a file of its own under that number."""
    try:
        if not os.readlink(pipe).startswith("pipe:"):
            return False
        end = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return stat.S_ISFIFO(os.fstat(end).st_mode) and os.write(end, b"?") == 1
        finally:
            os.close(end)
    except OSError:
        return False


def _pipe(path: Path, pid: int) -> str | None:
    size = f.H_WORDS * f.WORD
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            words = struct.unpack(f"<{f.H_WORDS}Q", file.read(size))
    except (OSError, struct.error):
        return None
    known = words[f.H_MAGIC] == f.MAGIC and words[f.H_PID] == pid and words[f.H_ASK]
    return f"/proc/{pid}/fd/{words[f.H_ASK] - 1}" if known else None


def _age(flight: Path) -> int:
    try:
        return os.lstat(flight).st_mtime_ns
    except OSError:
        return 0
