"""Start-up: the same process with and without recording, by turns; and how long launchers take to get to the script."""

from __future__ import annotations

import contextlib
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
# What the real one imports anyway, as `shared` has it, is no cost of the recorder's.
PART = """
import importlib, sys, time
for name in {shared}:
    importlib.import_module(name)
sys.path.insert(0, "stub")
start = time.perf_counter_ns()
import torch
print(time.perf_counter_ns() - start)
"""
IMPORTED = "import sys; sys.path.insert(0, {path!r}); import torch; print(*sys.modules)"
WAITING = "import sys; print(*(getattr(one, '__name__', '') for one in sys.meta_path))"


def measure(repeats, tell):
    """Milliseconds from start to exit, by program and by way."""
    found = {}
    for name, program in PROGRAMS.items():
        count = repeats if "torch" in program else 8 * repeats
        tell(f"start-up {name}: {count} times each")
        found[name] = _alternately(program, count)
    program = PART.format(shared=_shared())
    tell(f"start-up, the recorder's part: {8 * repeats} times each")
    found["part"] = _alternately(program, 8 * repeats)
    return found


def _shared():
    """Modules that both torch and the recorder import."""
    with _places() as (folder, recordings):
        torch = _run(IMPORTED.format(path=""), children.environment(), folder)
        recorder = _run(IMPORTED.format(path="stub"), children.environment(recordings), folder)
    return sorted(name for name in {*torch.split()} & {*recorder.split()} if name not in ("torch", "__main__"))


def _alternately(program, count):
    times = {steps.PLAIN: [], steps.RECORDED: []}
    with _places() as (folder, recordings):
        order = [(steps.PLAIN, children.environment()), (steps.RECORDED, children.environment(recordings))]
        if "_WaitForTorch" not in _run(WAITING, order[1][1], folder):
            raise children.Failed("the bootstrap does not start")
        for number in range(count + 1):
            for way, variables in order:
                took = _life(program, variables, folder)
                _check(recordings, way == steps.RECORDED and "import torch" in program)
                if number:  # the first pair reads everything from disk and writes bytecode
                    times[way].append(took)
            order.reverse()
    return times


@contextlib.contextmanager
def _places():
    """A working folder with an empty torch in `stub`, and a folder for recordings."""
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        recordings, stub = Path(folder, "recordings"), Path(folder, "stub", "torch")
        recordings.mkdir()
        stub.mkdir(parents=True)
        (stub / "__init__.py").touch()
        yield folder, recordings


def _life(program, variables, folder):
    """Milliseconds from start to exit, unless the program says a number of nanoseconds itself."""
    start = time.perf_counter_ns()
    said = _run(program, variables, folder)
    return int(said or time.perf_counter_ns() - start) / 1e6


def _run(program, variables, folder):
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise children.Failed(f"python -c {program!r}: exit code {done.returncode}")
    return done.stdout


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
