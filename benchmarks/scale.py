"""How long a verdict on a large run takes: 10, 100 and 1,000 ranks with eight workers each, healthy and one at fault.

    .venv/bin/python benchmarks/scale.py [--ranks 10 100 1000] [--folder DIR] [--json]

Every recording is written by the recorder that writes them in a training, at its full size, and read and judged as
`unstuck why RUN` does it, in a process of its own. 1,000 ranks take 5 GB of disk while it runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measuring.large_run import HEALTHY, KILLED, write_run

RANKS = (10, 100, 1000)
WORKERS = 8
MOST_SECONDS, MOST_MEMORY = 30.0, 1 << 30  # to read and judge a run of 1,000 ranks
MOST_TIMES = 12.0  # what 1,000 ranks take, of what 100 take: it grows with the run, and no faster
EXPECTED = {HEALTHY: ("healthy", []), KILLED: ("crashed", ["worker-killed"])}
JUDGE = """
import json, resource, sys, time
from pathlib import Path
began = time.perf_counter()
from unstuck import diagnose
diagnose.get_ready()
ready = time.perf_counter()
evidence = diagnose.gather(Path(sys.argv[1]))
read = time.perf_counter()
report = diagnose.report_on(evidence)
judged = time.perf_counter()
roots = [(one.rule, one.rank) for one in report.findings if one.role == "root"]
print(json.dumps({
    "start": ready - began, "reading": read - ready, "judging": judged - read,
    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "state": report.state, "roots": roots,
}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=RANKS, help="sizes to try (default: 10 100 1000)")
    parser.add_argument("--folder", type=Path, help="where recordings are written (default: a temporary folder)")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    asked = parser.parse_args()
    rows = []
    for ranks in asked.ranks:
        for what in EXPECTED:
            rows.append(measured(ranks, what, asked.folder))
            if not asked.json:
                print(line(rows[-1]), flush=True)
    missed = [*misses(rows)]
    print(
        json.dumps({"rows": rows, "missed": missed}, indent=1) if asked.json else "\n".join(missed) or "all targets met"
    )
    return 1 if missed else 0


def misses(rows: list[dict]) -> Iterator[str]:
    """Every target that was not met, in words."""
    for row in rows:
        name = f"{row['ranks']} ranks, {row['run']}"
        if not row["right"]:
            yield f"{name}: the verdict is wrong: {row['state']} {row['roots']}"
        if taken(row) > MOST_SECONDS or row["memory"] > MOST_MEMORY:
            yield f"{name}: {taken(row):.1f} s and {row['memory'] / 2**20:.0f} MiB"
    for small, large in itertools.product(rows, rows):
        if (small["ranks"], large["ranks"]) == (100, 1000) and small["run"] == large["run"]:
            times = taken(large) / taken(small)
            if times > MOST_TIMES:
                yield f"{large['run']}: 1,000 ranks take {times:.1f} times as long as 100"


def taken(row: dict) -> float:
    return row["reading"] + row["judging"]


def measured(ranks: int, what: str, folder: Path | None) -> dict:
    home = Path(tempfile.mkdtemp(prefix="unstuck-scale-", dir=folder))
    try:
        run, fault = write_run(home / "run", ranks, WORKERS, what)
        size = sum(file.stat().st_size for file in (run / "recordings").iterdir())
        done = subprocess.run([sys.executable, "-c", JUDGE, str(run)], capture_output=True, text=True, check=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    row = {"ranks": ranks, "run": what, "processes": ranks * (WORKERS + 1), "recorded": size, **json.loads(done.stdout)}
    state, roots = EXPECTED[what]
    row["right"] = row["state"] == state and row["roots"] == [[rule, fault] for rule in roots]
    return row


def line(row: dict) -> str:
    said = "right" if row["right"] else f"WRONG: {row['state']} {row['roots']}"
    return (
        f"{row['ranks']:>5} ranks, {row['processes']:>5} processes, {row['recorded'] / 1e9:5.2f} GB, {row['run']:<13} "
        f"reading {row['reading']:6.2f} s, judging {row['judging']:6.2f} s, {row['memory'] / 2**20:5.0f} MiB, {said}"
    )


if __name__ == "__main__":
    sys.exit(main())
