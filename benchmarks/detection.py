"""How soon unstuck tells why a run hangs, how often it is wrong, and whether healthy runs stay quiet: real scenarios.

Hangs and the healthy runs beside them; --all takes crashes and other causes, too, and measures the watcher and
`unstuck why PID`. Every scenario runs under `unstuck run --on-stall stop-always`, and its stderr is read as it appears.
The exit code is 1 if a target is missed: the cause told within 13 s (median) and 20 s (worst) after the last progress,
no hang called healthy, no alarm on a healthy run. It is 2 if something could not be measured.
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

AT_ONCE = 2  # one at a time beside busy processes, so that these are all that is beside it


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few scenarios only")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="scenarios with such names, or parts of them, as in 'worker-*'; `watcher` and `why-pid` are names too",
    )
    parser.add_argument("--all", action="store_true", help="not only hangs and healthy runs; takes about an hour")
    parser.add_argument("--beside", type=_count, default=0, metavar="N", help="with N busy processes beside each run")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="all figures, to a file; without one, instead of the page"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the run folders of wrong verdicts there")
    return parser.parse_args()


def _count(text):
    count = int(text)
    if not 0 <= count <= 64:
        raise argparse.ArgumentTypeError("from 0 to 64")
    return count


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
    figures = json.dumps(page, indent=1, ensure_ascii=False)
    if asked.json not in (None, "-"):
        Path(asked.json).write_text(f"{figures}\n")
    print(figures if asked.json == "-" else detection_page.text(page))
    if any("not measured" in one.get("says", "") for one in page["rows"]):
        return 2
    return 0 if all(one["met"] for one in page["targets"]) else 1


def progress():
    began = time.monotonic()

    def tell(what):
        print(f"[{time.monotonic() - began:4.0f} s] {what}", file=sys.stderr, flush=True)

    return tell


def measure(asked, tell):
    from measuring import children, detected, detection_page, looking

    stopping = threading.Event()
    began = os.getloadavg()[0]
    scenarios = detected.chosen(asked.only, quick=asked.quick, everything=asked.all)
    with children.busy(asked.beside):
        watcher = looking.watcher(1 if asked.quick else 4, stopping, tell) if wanted("watcher", asked) else None
        why = looking.why(3, stopping, tell) if wanted("why-pid", asked) else None
        trials = run_all(scenarios, stopping, asked, tell)
    if not trials and watcher is None and why is None:
        raise children.Failed(f"no scenario is called {' or '.join(asked.only or ['so'])}")
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
        "about": about(began, asked.beside),
        "beside": asked.beside,
        "rows": rows,
        "watcher": watcher,
        "why": why,
        "targets": detection_page.targets(rows),
        "budgets": detection_page.budgets(rows, watcher, why),
        "wrong": wrong,
    }


def wanted(name, asked):
    """The measurements that are no scenarios."""
    from measuring import detected

    if asked.only:
        return any(detected.matches(name, pattern) for pattern in asked.only)
    return asked.all or asked.quick


def run_all(scenarios, stopping, asked, tell):
    """Some at a time. Whatever interrupts it, no run is left: each thread ends its own before this returns."""
    from measuring import detected, trial

    with ThreadPoolExecutor(1 if asked.beside else AT_ONCE) as pool:
        running = {pool.submit(trial.run, one, stopping, asked.keep): place for place, one in enumerate(scenarios)}
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


def about(began, beside):
    from importlib.metadata import version

    day = time.strftime("%Y-%m-%d")
    machine = (
        f"{os.cpu_count()} cores, {platform.machine()}, load {began:.1f} before and {os.getloadavg()[0]:.1f} after"
    )
    with_it = f", beside {beside} busy processes" if beside else ""
    return f"{day}: {machine}{with_it}; Python {platform.python_version()}, torch {version('torch')}"


if __name__ == "__main__":
    sys.exit(main())
