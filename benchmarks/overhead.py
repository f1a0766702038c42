"""What recording costs a training, beside logging and beside TraceML. Every figure is a difference within one run.

The same small program runs in every way, a block of steps in turn, round after round. `added` compares the best of
all rounds, the one figure that repeats on a machine that others use; `in pairs` is the median difference within a
round. Takes about eight minutes; --quick about two.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path

RIVALS = Path(__file__).resolve().parents[1] / ".venv-rivals"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and steps: rougher figures")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument(
        "--rivals-dir",
        metavar="DIR",
        default=RIVALS,
        help="TraceML's environment, made at first use (default: .venv-rivals in the repository)",
    )
    parser.add_argument("--no-rivals", action="store_true", help="leave TraceML out")
    return parser.parse_args()


def progress():
    began = time.monotonic()

    def tell(what):
        print(f"[{time.monotonic() - began:4.0f} s] {what}", file=sys.stderr, flush=True)

    return tell


def main():
    asked = arguments()
    missing = [name for name in ("torch", "unstuck") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"overhead: {sys.executable} has no {missing[0]}; `make test` prepares .venv/bin/python", file=sys.stderr)
        return 2
    from measuring import children, table

    try:
        page = measure(asked, progress())
    except children.Failed as failure:
        print(f"overhead: could not measure: {failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("overhead: interrupted, nothing is left behind", file=sys.stderr)
        return 130
    print(json.dumps(page, indent=1, ensure_ascii=False) if asked.json else table.text(page))
    return 0


def measure(asked, tell):
    from measuring import children, startup, steps, table
    from measuring.loop import STEPS

    programs, rival = traceml(asked, tell)
    rounds, repeats, launches = (25, 3, 1) if asked.quick else (120, 8, 3)
    started = startup.measure(repeats, tell)
    launched = startup.measure_launchers(launches, programs, tell)
    results = steps.measure(rounds, programs, tell)
    for way in (steps.PLAIN, steps.RECORDED):
        if way in results.failed:
            raise children.Failed(f"{way}: {results.failed[way]}")
    sections = table.figures(results, started, launched)
    return {
        "about": about(rival),
        "sections": sections,
        "written": written(results.sizes, rounds * sum(STEPS.values())),
        "budgets": table.budgets(sections, results.sizes[steps.RECORDED]),
    }


def traceml(asked, tell):
    """Where TraceML's programs are, and which version; or None and why there are none."""
    from importlib.metadata import version

    from measuring import children, rivals

    if asked.no_rivals:
        return None, "TraceML left out"
    try:
        programs = rivals.traceml(asked.rivals_dir, version("torch").partition("+")[0], tell)
    except children.Failed as failure:
        return None, f"TraceML could not be installed: {failure}"
    return programs, f"TraceML {rivals.version(programs)}"


def about(rival):
    from importlib.metadata import version

    day = time.strftime("%Y-%m-%d")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}"
    return f"{day}: {machine}; Python {platform.python_version()}, torch {version('torch')}, {rival}"


def written(sizes, count):
    from measuring import steps

    mine = sizes[steps.RECORDED]
    lines = [
        f"{steps.RECORDED}: {mine[role] / 1024:.0f} KiB for a {role} process, whatever it does" for role in sorted(mine)
    ]
    lines += [
        f"{way}: {sizes[way]['log'] / 1024:.0f} KiB after {count} steps, and growing"
        for way in (steps.LOGGING, steps.TRACEML)
        if way in sizes
    ]
    return lines


if __name__ == "__main__":
    sys.exit(main())
