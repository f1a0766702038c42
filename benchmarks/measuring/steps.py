"""Runs the measured program in every way at once, and asks each in turn for a block of steps, round after round.

What is compared was measured within a second, on a machine in one state; only one of them works at a time.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import struct
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from measuring import children
from measuring.loop import SAMPLES, STEPS

from unstuck.inside import format as recording

LOOP = str(Path(__file__).with_name("loop.py"))
PLAIN, RECORDED, RUN, LOGGING = "plain", "unstuck, recording alone", "unstuck run", "logging to a file"
RIVAL_PLAIN, TRACEML, TRACEML_LEAN = "plain, beside TraceML", "TraceML", "TraceML, waits and steps alone"
PLAIN_OF = {TRACEML: RIVAL_PLAIN, TRACEML_LEAN: RIVAL_PLAIN}
START_LIMIT, BLOCK_LIMIT = 120, 60  # seconds


@dataclass
class Results:
    """By way of running: block medians of every loop, round by round; bytes written; and failures."""

    times: dict = field(default_factory=dict)
    sizes: dict = field(default_factory=dict)
    failed: dict = field(default_factory=dict)


def ways(programs):
    return (PLAIN, RECORDED, RUN, LOGGING, *((RIVAL_PLAIN, TRACEML, TRACEML_LEAN) if programs else ()))


def measure(rounds, programs, tell):
    results = Results()
    with contextlib.ExitStack() as stack:
        lines = {}
        for way in ways(programs):
            tell(f"starting the training loops: {way}")
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="overhead-"))
            try:
                lines[way] = _start(way, rounds, programs, folder, stack)
            except children.Failed as failure:
                results.failed[way] = str(failure)
        results.times = {way: {} for way in lines}
        for number in range(rounds):
            if number % 10 == 0:
                tell(f"training loops: round {number + 1} of {rounds}")
            _round(number, lines, results)
        tell("training loops: ending")
        for way, line in lines.items():
            results.sizes[way] = _sizes(way, line["folder"])
    if {"main", "worker"} - set(results.sizes.get(RECORDED, ())):
        results.failed.setdefault(RECORDED, "it left no recording of its main process and its worker")
    return results


def _round(number, lines, results):
    shuffle = random.Random(number).shuffle  # whoever comes after another must not always come after the same
    for loop in (*STEPS, *SAMPLES):
        order = list(lines)
        shuffle(order)
        for way in order:
            if way in results.failed or (loop in SAMPLES and way in (TRACEML, TRACEML_LEAN)):
                continue
            try:
                took = _ask(lines[way]["worker" if loop in SAMPLES else "main"], loop)
            except (OSError, ValueError) as error:
                results.failed[way] = f"it stopped answering in round {number + 1} ({type(error).__name__})"
                results.times[way].clear()
                continue
            if number:  # the first round warms up
                results.times[way].setdefault(loop, []).append(took)


def _ask(stream, loop):
    print(loop, file=stream, flush=True)
    return json.loads(stream.readline())


def _start(way, rounds, programs, folder, stack):
    """Start it and wait until its main process and its worker have called."""
    door = f"{folder}/door"
    listening = stack.enter_context(socket.socket(socket.AF_UNIX))
    listening.bind(door)
    listening.listen()
    arguments = [door, _how(way), str(rounds), f"{folder}/lines.log"]
    child = stack.enter_context(
        children.running(command(way, LOOP, arguments, programs, folder), variables(way, folder), folder)
    )
    found = {"folder": folder}
    listening.settimeout(1)
    for _ in range(START_LIMIT):
        with contextlib.suppress(TimeoutError):
            line = stack.enter_context(listening.accept()[0])
            line.settimeout(BLOCK_LIMIT)
            stream = stack.enter_context(line.makefile("rw"))
            found[json.loads(stream.readline())["part"]] = stream
        if len(found) == 3:
            return found
        children.check(child, folder)
    raise children.Failed(f"not ready after {START_LIMIT} s")


def command(way, script, arguments, programs, folder):
    """How a script is started in this way."""
    if way == RUN:
        recorded = [sys.executable, script, *arguments]
        return [sys.executable, "-m", "unstuck", "run", "--run-dir", f"{folder}/runs", "--", *recorded]
    if way in (TRACEML, TRACEML_LEAN):
        ports = ["--aggregator-port", _free_port(), "--master-port", _free_port()]
        quiet = ["--logs-dir", f"{folder}/logs", "--no-save-training-output"]
        return [str(programs / "traceml"), "run", script, *ports, *quiet, "--args", *arguments]
    return [str(programs / "python") if way == RIVAL_PLAIN else sys.executable, script, *arguments]


def variables(way, folder):
    if way != RECORDED:
        return children.environment()
    recordings = Path(folder) / "recordings"
    recordings.mkdir()
    return children.environment(recordings)


def _how(way):
    return {LOGGING: "logging", TRACEML: "traceml", TRACEML_LEAN: "traceml lean"}.get(way, "silent")


def _free_port():
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return str(door.getsockname()[1])


def _sizes(way, folder):
    if way == RECORDED:
        return _recording_sizes(Path(folder) / "recordings")
    if way == LOGGING:
        return {"log": (Path(folder) / "lines.log").stat().st_size}
    if way in (TRACEML, TRACEML_LEAN):
        return {"log": sum(file.stat().st_size for file in Path(folder, "logs").rglob("*") if file.is_file())}
    return {}


def _recording_sizes(folder):
    """The largest recording of each role."""
    found = {}
    for file in folder.glob("*.rec"):
        with file.open("rb") as opened:
            header = opened.read(recording.HEADER_SIZE)
        role = recording.ROLES[struct.unpack_from("<Q", header, recording.H_ROLE * recording.WORD)[0]]
        found[role] = max(found.get(role, 0), file.stat().st_size)
    return found
