"""Start-up: the same process with and without recording, by turns; and how long launchers take to get to the script."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import children, steps

READY = Path(__file__).with_name("ready.py")
PROGRAMS = {"with torch": "import torch", "without torch": "pass"}
# An empty package named torch loads the recorder too. Importing the real one varies by more than what is looked for.
PART = """
import sys, time
sys.path.insert(0, "stub")
start = time.perf_counter_ns()
import torch
print(time.perf_counter_ns() - start)
"""


def measure(repeats, tell):
    """Milliseconds from start to exit, by program and by way."""
    found = {}
    for name, program in PROGRAMS.items():
        count = repeats if "torch" in program else 8 * repeats
        tell(f"start-up {name}: {count} times each")
        found[name] = _alternately(program, count)
    tell(f"start-up, the recorder's part: {8 * repeats} times each")
    found["part"] = _alternately(PART, 8 * repeats)
    return found


def _alternately(program, count):
    times = {steps.PLAIN: [], steps.RECORDED: []}
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        recordings, stub = Path(folder, "recordings"), Path(folder, "stub", "torch")
        recordings.mkdir()
        stub.mkdir(parents=True)
        (stub / "__init__.py").touch()
        order = [(steps.PLAIN, children.environment()), (steps.RECORDED, children.environment(recordings))]
        for number in range(count + 1):
            for way, variables in order:
                took = _life(program, variables, folder)
                _check(recordings, way == steps.RECORDED and "import torch" in program)
                if number:  # the first pair reads everything from disk and writes bytecode
                    times[way].append(took)
            order.reverse()
    return times


def _life(program, variables, folder):
    """Milliseconds from start to exit, unless the program says a number of nanoseconds itself."""
    command = [sys.executable, "-c", program]
    start = time.perf_counter_ns()
    done = subprocess.run(
        command, env=variables, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    took = time.perf_counter_ns() - start
    if done.returncode:
        raise children.Failed(f"python -c {program!r}: exit code {done.returncode}")
    return int(done.stdout or took) / 1e6


def _check(recordings, owed):
    """A process that was to be recorded and was not would look wonderfully cheap."""
    found = list(recordings.glob("*.rec"))
    if bool(found) != owed:
        raise children.Failed("a process left no recording" if owed else "a process left a recording unasked")
    for file in found:
        file.unlink()


def measure_launchers(repeats, programs, tell):
    """Milliseconds from the command to the script's first line after its imports, by way."""
    ways = (steps.PLAIN, steps.RUN, *((steps.RIVAL_PLAIN, steps.TRACEML) if programs else ()))
    times = {}
    for number in range(1, repeats + 1):
        tell(f"start-up of launchers: {number} of {repeats}")
        for way in ways:
            with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
                out = f"{folder}/ready.json"
                arguments = [out, "traceml" if way == steps.TRACEML else "silent"]
                command = steps.command(way, str(READY), arguments, programs, folder)
                start = time.monotonic_ns()
                children.run(command, steps.variables(way, folder), folder)
                times.setdefault(way, []).append((json.loads(Path(out).read_text()) - start) / 1e6)
    return times
