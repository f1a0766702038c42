"""Samples a run that nobody prepared and keeps the evidence: `python tests/capture_samples.py`.

The scenarios are those of `dataloader-bound`, made to last: their workers must not be started anew in mid-sample.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import msgspec

from capture import kept_text, replacements, words
from kept import KEPT
from unstuck.demo.scenarios import all_scenarios
from unstuck.evidence import Evidence
from unstuck.report import Report

RULE = "dataloader-bound"
SETTLED = 6.0  # seconds until the workers have been at it for a while


def main() -> None:
    folder = KEPT / RULE
    for name, file in ((RULE, "sampled"), (f"{RULE}-healthy", "sampled_clear")):
        with tempfile.TemporaryDirectory() as place, lasting(name, Path(place)) as pid:
            evidence = anonymous(sampled(pid), place)
        (folder / f"{file}.json").write_text(kept_text(msgspec.to_builtins(evidence)))
        if file == "sampled":
            (folder / "sampled.txt").write_text(words(RULE, evidence))


@contextmanager
def lasting(name: str, folder: Path):
    """The scenario with a dataset that has no end in sight, plainly started, once its workers are busy; its pid."""
    scenario = all_scenarios()[name]
    script = folder / scenario.path.name
    script.write_text(re.sub(r"return (\d+)\n", r"return \g<1>00\n", scenario.path.read_text(), count=1))
    with started(script) as process:
        yield process.pid


@contextmanager
def started(script: Path, *, workers: bool = True):
    process = subprocess.Popen([sys.executable, script], cwd=script.parent, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while workers and not children(process.pid) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(SETTLED)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def sampled(pid: int, seconds: int = 3) -> Evidence:
    command = [sys.executable, "-m", "unstuck", "why", str(pid), "--seconds", str(seconds), "--json", "--with-evidence"]
    said = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=False).stdout
    return msgspec.json.decode(said, type=Report).evidence


def anonymous(evidence: Evidence, folder: str) -> Evidence:
    text = msgspec.json.encode(evidence).decode()
    for pattern, replacement in [(re.escape(folder), "/project/scenarios"), *replacements()]:
        text = re.sub(pattern, replacement, text)
    return msgspec.json.decode(text, type=Evidence)


if __name__ == "__main__":
    main()
