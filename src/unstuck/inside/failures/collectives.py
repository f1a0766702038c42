"""Calls and blocks in which ranks wait for each other, by the user's line; and torch's Flight Recorder, on request.

The Flight Recorder tells which collectives this rank has called, and which it still waits in. One thread, only in a
rank's main process and only once it has a process group, waits at a pipe that nobody else knows. Who may look into this
process can write to it (`/proc/PID/fd/N`); the answer is a file beside the recording. No answer within two seconds
means that somebody holds the interpreter's lock.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .. import format as f
from ..core.frames import in_words
from ..core.guard import HERE, Guard, around, clean, is_library, quietly
from ..core.process import process
from ..core.recorder import Recorder, clock
from ..format import APART, ROLE_MAIN, Kind

KEPT = 256  # of the newest entries
SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")  # the second is what versions before RENAMED know
RENAMED = (2, 8)
ENTRIES = "2000"  # what torch recommends, and what newer versions keep by themselves
INDUCTOR = "torch._inductor"  # DDP has it imported


class Span:
    """One that was begun."""

    __slots__ = ("key", "recorder", "slot", "start")

    def __init__(self, recorder: Recorder, name: str, frame: FrameType | None) -> None:
        self.recorder = recorder
        self.key = recorder.intern(name + APART + in_words(frame))
        self.slot = recorder.board_slot(Kind.SPAN, self.key)
        self.start = clock()
        recorder.board(self.slot, Kind.SPAN, self.key, self.start, 1)

    def fails(self, _: object = None) -> None:
        self.ends(failed=True)

    def ends(self, *, failed: bool = False) -> None:
        recorder = self.recorder
        if recorder is process.recorder:  # else a child was forked in between
            now = clock()
            recorder.event(Kind.SPAN, self.key, self.start, now - self.start, failed)
            recorder.total(recorder.total_slot(Kind.SPAN, self.key), now - self.start)
            recorder.board(self.slot, Kind.SPAN, self.key, now)
            recorder.cost(clock() - now)


def begin_span(name: str, frame: FrameType | None, _args: object = (), _kwargs: object = None) -> Span | None:
    """None when nothing records."""
    recorder = process.recording(ROLE_MAIN)
    return None if recorder is None else Span(recorder, name, frame)


def spanned(original: Any, name: str, guard: Guard) -> Any:
    """A wrapper for a function that is one span."""
    return around(original, guard, functools.partial(begin_span, name), end=Span.ends, fail=Span.fails)


def spanned_generator(original: Any, name: str, guard: Guard) -> Any:
    """A wrapper for a generator that is the inside of a context manager: the whole block is one span."""

    def block(*args: Any, **kwargs: Any) -> Iterator[Any]:
        span = guard.result(begin_span, name, sys._getframe(1))
        failed = True
        try:
            yield from original(*args, **kwargs)
            failed = False
        except Exception as error:
            clean(error)
            raise
        finally:
            if span is not None:
                guard.quietly(span.fails if failed else span.ends)

    return block


class Flight:
    """Of this process. A forked child has neither the thread nor the pipe."""

    def __init__(self) -> None:
        self.pid = 0
        self.asking = self.answering = -1  # ends of the pipe
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        ends, self.asking, self.answering, self.pid = (self.asking, self.answering), -1, -1, 0
        for end in ends:
            quietly(_close, end)

    def ready(self, recorder: Recorder) -> None:
        """From now on it can be asked for."""
        if self.pid == process.pid or _dump_function() is None:
            return
        self.pid = process.pid
        self.answering, self.asking = os.pipe2(os.O_CLOEXEC)
        threading.Thread(target=_answer, args=(self.answering, recorder), name=f.THREAD, daemon=True).start()
        recorder.words[f.H_ASK] = self.asking + 1
        process.last_things.append(self.at_the_end)

    def at_the_end(self) -> None:
        """The process ends by itself: what it did last is kept, and nobody asks any more."""
        recorder = process.recorder
        if recorder is not None and self.pid == process.pid:
            recorder.words[f.H_ASK] = 0
            write_flight_record(recorder)


def switch_on() -> None:
    """Have NCCL's groups keep their collectives, where torch would not and nobody has decided about it.

    torch reads the variable when a group is made. Under its older name newer versions warn of it.
    """
    version = sys.modules.get("torch.version")
    if not any(getattr(version, name, None) for name in ("cuda", "hip")) or any(one in os.environ for one in SIZES):
        return
    major, _, rest = str(getattr(version, "__version__", "")).partition(".")
    minor = rest.partition(".")[0]
    if major.isdigit() and minor.isdigit():
        os.environ[SIZES[(int(major), int(minor)) < RENAMED]] = ENTRIES


def _close(end: int) -> None:
    if end >= 0:
        try:
            os.close(end)
        except OSError:  # the user's program has closed what it does not know
            return


def _answer(end: int, recorder: Recorder) -> None:
    """For ever, in a thread of its own: it holds nothing, and runs only when somebody asks."""
    while True:
        try:
            asked = os.read(end, 64)
        except OSError:
            return
        if not asked:
            return
        quietly(write_flight_record, recorder)


def write_flight_record(recorder: Recorder) -> None:
    """What the Flight Recorder has, into a file of its own, whole or not at all."""
    dump = _dump_function()
    if dump is None:
        return
    path = recorder.path.removesuffix(".rec") + ".flight"
    half = path + ".half"
    lines = INDUCTOR in sys.modules  # torch looks into it for the lines of calls, and would import it: for seconds
    told = dump(includeCollectives=True, includeStackTraces=lines, onlyActive=False)
    entries = pickle.loads(told).get("entries", [])  # noqa: S301  (torch's own, of this process)
    drift = _drift(recorder)
    text = json.dumps([_entry(one, drift) for one in entries[-KEPT:]], ensure_ascii=False, default=str)
    fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode("utf-8", "replace"))
    finally:
        os.close(fd)
    os.replace(half, path)


def _dump_function() -> Any:
    """The general one of newer versions, or NCCL's own of older ones."""
    module = sys.modules.get("torch._C._distributed_c10d")
    return getattr(module, "_dump_fr_trace", None) or getattr(module, "_dump_nccl_trace", None)


def _drift(recorder: Recorder) -> int:
    """Nanoseconds by which the recording's clock, set once, is ahead of the wall clock, which torch's entries go by.

    Of several readings the quickest: between two clocks a thread may lose its core.
    """
    readings = [(clock(), time.time_ns(), clock()) for _ in range(5)]
    before, wall, after = min(readings, key=lambda one: one[2] - one[0])
    return recorder.words[f.H_WALL] + (before + after) // 2 - recorder.words[f.H_MONOTONIC] - wall


def _entry(one: dict[str, Any], drift: int) -> dict[str, Any]:
    group = one.get("process_group") or ("", "")
    line, calls = _users(one.get("frames") or [])
    return {
        "sequence": one.get("collective_seq_id", 0),
        "p2p": bool(one.get("is_p2p")),
        "operation": str(one.get("profiling_name", "")),
        "created": one.get("time_created_ns", 0) + drift,
        "state": one.get("state", ""),
        "retired": bool(one.get("retired")),
        "group": [str(part) for part in group],
        "sizes": one.get("input_sizes") or [],
        "timeout_ms": one.get("timeout_ms", 0),
        "line": line,
        "calls": calls,
    }


def _users(frames: list[dict[str, Any]]) -> tuple[dict[str, Any] | None, str]:
    """The innermost line of the user's, and what it called."""
    called = ""
    for frame in frames:
        file, name = str(frame.get("filename", "")), str(frame.get("name", ""))
        if not is_library(file):
            return {"file": file, "line": frame.get("line", 0), "function": name}, called
        called = called if file.startswith(HERE) else name
    return None, called


flight = Flight()
