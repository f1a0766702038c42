"""How soon unstuck names a cause, how often it is wrong, and what watching costs: over the real scenarios.

Every scenario runs under `unstuck run --on-stall stop`, two at a time, and its stderr is read as it is written. The
watcher and `unstuck why PID` are measured alone. Takes about seventeen minutes; --quick about four.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

AT_ONCE = 2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few scenarios only")
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        help="scenarios with such names, as in 'worker-*'; `watcher` and `why-pid` are names too",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures there")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the run folders of wrong verdicts there")
    return parser.parse_args()


def main():
    asked = arguments()
    missing = [name for name in ("torch", "unstuck") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"detection: {sys.executable} has no {missing[0]}; `make test` prepares .venv/bin/python", file=sys.stderr
        )
        return 2
    from measuring import children, detection_page

    for number in (signal.SIGINT, signal.SIGTERM):  # also where Ctrl-C was ignored by whoever started this
        signal.signal(number, signal.default_int_handler)
    try:
        page = measure(asked, progress())
    except children.Failed as failure:
        print(f"detection: could not measure: {failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("detection: interrupted, nothing is left behind", file=sys.stderr)
        return 130
    if asked.json is not None:
        asked.json.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n")
    print(detection_page.text(page))
    return 0


def progress():
    began = time.monotonic()

    def tell(what):
        print(f"[{time.monotonic() - began:4.0f} s] {what}", file=sys.stderr, flush=True)

    return tell


def measure(asked, tell):
    from measuring import detected, detection_page, looking

    stopping = threading.Event()
    began = os.getloadavg()[0]
    wanted = [name for name in ("watcher", "why-pid") if asked.only is None or detected.matches(name, asked.only)]
    watcher = looking.watcher(1 if asked.quick else 4, stopping, tell) if "watcher" in wanted else None
    why = looking.why(3, stopping, tell) if "why-pid" in wanted else None
    trials = run_all(detected.chosen(asked.only, quick=asked.quick), stopping, asked.keep, tell)
    rows = [detected.row(one) for one in trials]
    output = {one.scenario.name: one.output for one in trials}
    wrong = [
        {"name": one["name"], "expect": one["expect"], "output": output[one["name"]]} for one in detected.wrong(rows)
    ]
    wrong += [
        {"name": "why-pid", "expect": looking.BLOCKED, **one}
        for one in (why or {}).get("asked", [])
        if not one["right"]
    ]
    return {
        "about": about(began),
        "rows": rows,
        "watcher": watcher,
        "why": why,
        "budgets": detection_page.budgets(rows, watcher, why),
        "wrong": wrong,
    }


def run_all(scenarios, stopping, keep, tell):
    """Two at a time. Whatever interrupts it, no run is left: each thread ends its own before this returns."""
    from measuring import detected, trial

    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(trial.run, one, stopping, keep): place for place, one in enumerate(scenarios)}
        found = {}
        try:
            for done in as_completed(running):
                found[running[done]] = done.result()
                one = detected.row(found[running[done]])
                tell(f"{len(found)} of {len(scenarios)}: {one['name']}: {told(one)}")
        finally:
            if len(found) < len(scenarios):
                stopping.set()
            pool.shutdown(cancel_futures=True)
    return [found[place] for place in sorted(found)]


def told(one):
    if "says" in one:
        return one["says"]
    seconds = "" if one.get("seconds") is None else f"{one['seconds']:.2f} s, "
    alarms = f", FALSE ALARM: {', '.join(one['alarms'])}" if one.get("alarms") else ""
    return f"{seconds}{'right' if one['right'] else 'WRONG: ' + one['verdict']}{alarms}"


def about(began):
    from importlib.metadata import version

    day = time.strftime("%Y-%m-%d")
    machine = (
        f"{os.cpu_count()} cores, {platform.machine()}, load {began:.1f} before and {os.getloadavg()[0]:.1f} after"
    )
    return f"{day}: {machine}; Python {platform.python_version()}, torch {version('torch')}"


if __name__ == "__main__":
    sys.exit(main())
