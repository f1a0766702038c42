"""Whether `unstuck tune` finds what an exhaustive grid finds, and in how much of its time.

For each loader, one after the other: the search, then every setting of the grid it chooses from (num_workers 0 to 8,
prefetch_factor 1, 2, 4, 8, in order and not), each with the same time. Then the two winners are measured alternately:
the ratio of these is what counts, because the machine is not the same machine ten minutes later. Takes about fifteen
minutes; --quick four.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
PLAIN, REAL = HERE / "measuring" / "plain_loaders.py", HERE.parent / "tests" / "trials" / "real_loaders.py"
LOADERS = {
    "images (pillow)": (REAL, "images", {"batch": 8}),
    "waiting, unevenly": (PLAIN, "uneven", {}),
    "tensors in memory": (PLAIN, "in_memory", {}),
    "waiting for a store": (PLAIN, "waiting", {}),
    "3D volumes": (REAL, "volumes", {"side": 64}),
    "parquet, tokenised": (REAL, "tokens", {"batch": 32}),
}
QUICK = ("images (pillow)", "waiting for a store")
TURNS = 4  # alternations of the two winners


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two loaders")
    parser.add_argument("--only", metavar="PART", help="loaders whose name has this in it")
    parser.add_argument("--each", type=float, default=1.0, metavar="S", help="seconds for one setting (default: 1)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    return parser.parse_args()


def alternately(settings):
    """Questions of the last part: the winners in turn."""

    def questions(seen):
        for turn in range(TURNS):
            for setting in settings if turn % 2 else settings[::-1]:
                seen.add(setting, (yield setting))

    return questions


def asked(work, each, questions):
    """One conversation: what was seen, and the seconds of measuring."""
    from unstuck.trials.tune.conversation import Conversation
    from unstuck.trials.tune.standings import Bounds
    from unstuck.trials.tune.tune import processors

    talk = Conversation(work, {}, 3600.0, lambda seen, _: questions(seen), lambda *_: None)
    talk.each = each
    talk.hold(Bounds(processors(), orders=True))
    return talk.seen, sum(one.took for one in talk.seen.order)


def compared(name, each, folder, tell):
    from unstuck.trials.attempt import Work
    from unstuck.trials.tune.search import exhaustive, grid, search
    from unstuck.trials.tune.standings import setting_of

    path, function, kwargs = LOADERS[name]
    kwargs = {**kwargs, "root": str(folder / "data")} if path == REAL else kwargs
    work = Work(f"{path}:{function}", kwargs, sys.executable, folder / "runs")
    tell(f"{name}: the search")
    found, searching = asked(work, each, search)
    tell(f"{name}: the grid of {len(grid(found.bounds))} settings")
    every, going_through = asked(work, each, exhaustive)
    if found.best() is None or every.best() is None:
        raise RuntimeError(f"{name} could not be measured")
    mine, best = setting_of(found.best()), setting_of(every.best())
    row = {
        "loader": name,
        "search": {"setting": mine.words(), "settings": len(found.order), "seconds": searching},
        "grid": {"setting": best.words(), "settings": len(every.order), "seconds": going_through},
        "time": searching / going_through,
    }
    tell(f"{name}: both alternately")
    return {**row, **duel(work, each, mine, best)}


def duel(work, each, mine, best):
    """The search's setting against the grid's, measured in turn. Noise is what two such means may differ by."""
    seen, _ = asked(work, each, alternately([mine, best]))
    rates = {setting: [one.rate for one in seen.results[setting]] for setting in {mine, best}}
    means = {setting: statistics.fmean(found) for setting, found in rates.items()}
    error = [statistics.stdev(found) / means[setting] / math.sqrt(len(found)) for setting, found in rates.items()]
    noise = 2 * math.hypot(*error)
    ratio = means[mine] / means[best]
    return {"rate": means[mine], "rate_of_grid": means[best], "ratio": ratio, "noise": noise}


def text(page):
    out = [
        page["about"],
        "",
        f"  {'':22}{'the search':>38}{'settings':>10}{'the best of the grid':>40}{'settings':>10}",
    ]
    for row in page["rows"]:
        search, grid = row["search"], row["grid"]
        ours = f"{search['setting']:>38}{search['settings']:>10}"
        theirs = f"{grid['setting']:>40}{grid['settings']:>10}"
        out.append(f"  {row['loader']:22}{ours}{theirs}")
    out += ["", f"  {'':22}{'samples/s':>12}{'of the grid':>14}{'ratio':>9}{'noise':>9}{'time':>18}{'of it':>8}"]
    for row in page["rows"]:
        took = f"{row['search']['seconds']:.0f} of {row['grid']['seconds']:.0f} s"
        out.append(
            f"  {row['loader']:22}{row['rate']:>12,.1f}{row['rate_of_grid']:>14,.1f}{row['ratio']:>9.3f}"
            f"{'± ' + format(row['noise'], '.3f'):>9}{took:>18}{row['time']:>7.0%}"
        )
    out += ["", "Budgets"]
    for row in page["rows"]:
        good = row["ratio"] >= 1 - max(row["noise"], 0.03)
        out.append(f"  {'met    ' if good else 'NOT met'}  {row['loader']}: as good as the grid's best within noise")
        quick = row["time"] <= 0.25
        took = f"{row['time']:.0%} of the grid's time, of at most 25 %"
        out.append(f"  {'met    ' if quick else 'NOT met'}  {row['loader']}: {took}")
    return "\n".join(out)


def main():
    wanted = arguments()
    names = [name for name in LOADERS if (wanted.only or "") in name and (not wanted.quick or name in QUICK)]
    from unstuck.trials.attempt import prepare

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    prepare()
    began = time.monotonic()

    def tell(what):
        print(f"[{time.monotonic() - began:4.0f} s] {what}", file=sys.stderr, flush=True)

    rows = []
    load = os.getloadavg()[0]
    try:
        with tempfile.TemporaryDirectory(prefix="unstuck-") as folder:
            for name in names:
                rows.append(compared(name, wanted.each, Path(folder), tell))
                tell(f"{name}: {rows[-1]['ratio']:.3f} ± {rows[-1]['noise']:.3f} of the grid in {rows[-1]['time']:.0%}")
    except KeyboardInterrupt:
        print("tune: interrupted, nothing is left behind", file=sys.stderr)
        if not rows:
            return 130
    except RuntimeError as failure:
        print(f"tune: {failure}", file=sys.stderr)
        return 2
    machine = f"{os.cpu_count()} cores, {platform.machine()}, load {load:.1f} before and {os.getloadavg()[0]:.1f} after"
    with_what = f"Python {platform.python_version()}, torch {version('torch')}"
    page = {"about": f"{time.strftime('%Y-%m-%d')}: {machine}; {with_what}", "rows": rows}
    print(text(page))
    if wanted.json:
        Path(wanted.json).write_text(json.dumps(page, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
