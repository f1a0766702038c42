"""Predicted memory against the measured peak, over real loaders: `python benchmarks/budget.py [LOADER...]`.

The prediction is what `unstuck budget` makes of some samples and one worker. Then the loader is run for real, without
unstuck, by a training loop slow enough for its queues to fill; the peak of all its processes together is sampled from
outside: private memory, with each one's part of what they share, and shared memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from unstuck.evidence.trial import Budget
from unstuck.report import Report
from unstuck.trials.cleanup import below
from unstuck.trials.memory import Used, used

HERE = Path(__file__).parent
LOADERS = HERE.parent / "tests" / "trials" / "real_loaders.py"
EVERY = 0.003  # seconds between two quick looks
# An exact look holds up whoever allocates meanwhile: so only now and then, and when the quick one shows a new maximum.
EXACTLY_EVERY = 0.05
WITHIN = 0.2


class Case(NamedTuple):
    loader: str
    about: str
    kwargs: dict[str, object] = {}  # noqa: RUF012  (never changed)
    seconds: float = 0.15  # of a training step
    steps: int = 10_000  # whole passes: a worker takes more with every batch, until torch cleans up


CASES = (
    Case("images", "JPEG files, Pillow"),
    Case("images", "the same, 4 workers, prefetch 4, batches of 128", {"workers": 4, "batch": 128, "prefetch": 4}),
    Case("images", "the same, a long pass with batches of 32", {"batch": 32, "length": 20_000}, 0.05, 160),
    Case("web_shards", "webdataset, shuffle(400) of raw samples", seconds=0.1),
    Case("tokens", "parquet, tokenizers"),
    Case("volumes", "3D volumes of 16 MiB"),
    Case("volumes", "the same, prefetch 4, batches of 1", {"batch": 1, "prefetch": 4}),
    Case("volumes", "the same, 4 workers, prefetch 1, batches of 1", {"workers": 4, "batch": 1, "prefetch": 1}),
    Case("hugging_face", "datasets, a stream with shuffle(1000)", seconds=0.1),
    Case("captions", "600,000 Python strings", seconds=0.02),
    Case("data_module", "Lightning DataModule"),
)


def predicted(case: Case, root: str) -> Budget:
    kwargs = json.dumps({**case.kwargs, "root": root})
    command = [sys.executable, "-m", "unstuck", "budget", f"{LOADERS}:{case.loader}", "--kwargs", kwargs, "--json"]
    with tempfile.TemporaryDirectory() as runs:
        said = subprocess.run([*command, "--run-dir", runs], stdout=subprocess.PIPE, check=False).stdout
    found = msgspec.json.decode(said, type=Report).trial
    return found.budget


def measured(case: Case, root: str) -> Used:
    """The most of it, and of /dev/shm."""
    kwargs = json.dumps({**case.kwargs, "root": root})
    script = HERE / "measuring" / "slow_training.py"
    words = [f"{LOADERS}:{case.loader}", kwargs, str(case.steps), str(case.seconds)]
    process = subprocess.Popen([sys.executable, str(script), *words], env={**os.environ, "UNSTUCK": "0"})
    most = shm = quick = 0
    looked = 0.0
    while process.poll() is None:
        pids = below(process.pid)
        now = resident(pids)
        if now > quick or time.monotonic() > looked + EXACTLY_EVERY:
            in_shm = in_shared_memory(pids)
            most, shm = max(most, used(pids, 0).private + in_shm), max(shm, in_shm)
            quick, looked = max(quick, now), time.monotonic()
        time.sleep(EVERY)
    if process.returncode:
        raise SystemExit(f"{case.loader} failed")
    return Used(most, shm)


def in_shared_memory(pids: list[int]) -> int:
    """Of these processes alone, whoever else uses /dev/shm: what they have mapped, or open on its way to another."""
    found: dict[int, int] = {}
    for pid in pids:
        try:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if "/dev/shm/torch_" in line:
                    words = line.split()
                    begin, end = (int(one, 16) for one in words[0].split("-"))
                    found[int(words[4])] = end - begin
            for one in os.scandir(f"/proc/{pid}/fd"):
                if os.readlink(one.path).startswith("/dev/shm/torch_"):
                    seen = os.stat(one.path)
                    found[seen.st_ino] = seen.st_blocks * 512
        except OSError:
            continue
    return sum(found.values())


def resident(pids: list[int]) -> int:
    """Private memory of all, what forked processes share counted for each: quick to read."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("RssAnon"))
    return total


def main(names: list[str]) -> int:
    off = 0
    print(f"{'loader':14} {'predicted':>10} {'measured':>10} {'ratio':>6}   /dev/shm", flush=True)
    with tempfile.TemporaryDirectory(prefix="unstuck-budget-") as root:
        for case in CASES:
            if names and case.loader not in names:
                continue
            measured(case._replace(steps=1), root)  # makes its data, which is not to be measured
            told, seen = predicted(case, root), measured(case, root)
            ratio = told.node / seen.private
            off += abs(ratio - 1) > WITHIN
            sizes = f"{told.node / 2**20:6.0f} MiB {seen.private / 2**20:6.0f} MiB {ratio:6.2f}"
            shm = f"{told.shm / 2**20:5.0f} of {seen.shm / 2**20:5.0f} MiB"
            print(f"{case.loader:14} {sizes}   {shm}   {case.about}", flush=True)
            if os.environ.get("TERMS"):
                for term in told.terms:
                    print(f"    {term.name:20} {term.size / 2**20:8.1f} MiB  {term.how}")
    print(f"within {WITHIN:.0%}: {'all' if not off else f'all but {off}'}")
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
