"""Start-up: the same process with and without recording, by turns; and how long launchers take to get to the script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measuring import children, steps

READY = Path(__file__).with_name("ready.py")
PROGRAMS = {"with torch": "import torch", "without torch": "pass"}
# Looking for torch is what loads the recorder. Importing it varies by more than what is looked for.
PART = """
import importlib.util, time
start = time.perf_counter_ns()
importlib.util.find_spec("torch")
print(time.perf_counter_ns() - start)
"""


def measure(repeats, tell):
    """Milliseconds from start to exit, by program and by way."""
    found = {}
    for name, program in PROGRAMS.items():
        count = repeats if "torch" in program else 4 * repeats
        tell(f"start-up {name}: {count} times each")
        found[name] = _alternately(program, count)
    tell(f"start-up, the recorder's part: {4 * repeats} times each")
    found["part"] = _alternately(PART, 4 * repeats)
    return found


def _alternately(program, count):
    times = {steps.PLAIN: [], steps.RECORDED: []}
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        order = [(steps.PLAIN, children.environment()), (steps.RECORDED, children.environment(folder))]
        for number in range(count + 1):
            for way, variables in order:
                took = _life(program, variables)
                if number:  # the first pair reads everything from disk and writes bytecode
                    times[way].append(took)
                _clear(folder)
            order.reverse()
    return times


def _life(program, variables):
    """Milliseconds from start to exit, unless the program says a number of nanoseconds itself."""
    start = time.perf_counter_ns()
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    took = time.perf_counter_ns() - start
    if done.returncode:
        raise children.Failed(f"python -c {program!r}: exit code {done.returncode}")
    return int(done.stdout or took) / 1e6


def _clear(folder):
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))


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
