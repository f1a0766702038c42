"""Runs the measured loop in every way in turn, round after round, and gathers what each run found."""

from __future__ import annotations

import json
import socket
import struct
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from measuring import children
from unstuck.inside import format as recording

LOOP = str(Path(__file__).with_name("loop.py"))
SECONDS = {True: 5, False: 10}  # roughly, for the progress line
PLAIN, RECORDED, RUN, LOGGING = "plain", "unstuck, recording alone", "unstuck run", "logging to a file"
RIVAL_PLAIN, TRACEML, TRACEML_LEAN = "plain, beside TraceML", "TraceML", "TraceML, waits and steps alone"
PLAIN_OF = {TRACEML: RIVAL_PLAIN, TRACEML_LEAN: RIVAL_PLAIN}


@dataclass
class Results:
    """By way of running: block medians of every loop over all rounds, sizes of what was written, and failures."""

    times: dict = field(default_factory=dict)
    sizes: dict = field(default_factory=dict)
    failed: dict = field(default_factory=dict)


def ways(programs):
    return (PLAIN, RECORDED, RUN, LOGGING, *((RIVAL_PLAIN, TRACEML, TRACEML_LEAN) if programs else ()))


def measure(rounds, scale, programs, tell):
    results = Results()
    for number in range(1, rounds + 1):
        for way in ways(programs):
            if way not in results.failed:
                tell(f"round {number} of {rounds}: the training loops, {way}")
                _once(way, scale, programs, results)
    return results


def _once(way, scale, programs, results):
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        out = f"{folder}/found.json"
        try:
            children.run(
                command(way, LOOP, [out, _how(way), str(scale)], programs, folder), variables(way, folder), folder
            )
        except children.Failed as failure:
            results.failed[way] = str(failure)
            return
        for loop, times in json.loads(Path(out).read_text()).items():
            results.times.setdefault(way, {}).setdefault(loop, []).extend(times)
        results.sizes[way] = _sizes(way, folder)


def command(way, script, arguments, programs, folder):
    """How a script is started in this way."""
    if way == RUN:
        return [
            sys.executable,
            "-m",
            "unstuck",
            "run",
            "--run-dir",
            f"{folder}/runs",
            "--",
            sys.executable,
            script,
            *arguments,
        ]
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
        return {"log": (Path(folder) / "found.json.log").stat().st_size}
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
