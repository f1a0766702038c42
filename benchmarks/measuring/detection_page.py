"""The page of benchmarks/detection.py: its rows as text, and every budget beside what was measured."""

from __future__ import annotations

from pathlib import Path

from measuring import detected

ROOT = f"{Path(__file__).resolve().parents[2]}/"
TITLES = {
    detected.STALLS: "Stalls: from the last progress to the printed cause",
    detected.CRASHES: "Crashes: from the end of the command's process to the printed cause",
    detected.OTHERS: "Other causes, told when the run has ended: from its end to the printed cause",
    detected.HEALTHY: "Healthy runs: nothing may be found, and nothing told while they run",
}
HEADS = {
    detected.STALLS: f"{'printed':>10}{'looked into':>14}{'p99 before':>13}",
    detected.CRASHES: f"{'printed':>10}",
    detected.OTHERS: f"{'printed':>10}",
    detected.HEALTHY: f"{'looked into':>14}",
}
MEDIAN, WORST, CRASH = 13.0, 20.0, 2.0  # seconds
SHARE, WHY = 1.0, 3.0  # per cent of one core, seconds
LONGEST = 37


def targets(rows):
    """What decides about the exit code. What was left out has no line."""
    found, hangs, healthy = [], detected.summary(rows, detected.STALLS), detected.summary(rows, detected.HEALTHY)
    if hangs["runs"]:
        worst = None if hangs["untold"] else hangs["worst"]
        timed = hangs["median"] is not None or hangs["untold"]
        if timed:  # not where all of them are held to a patience of their own
            found.append(_budget(f"hang → told cause, median of {hangs['runs']}", hangs["median"], MEDIAN, "s"))
            found.append(_budget("hang → told cause, worst", worst, WORST, "s"))
        found.append(_budget(f"hangs called healthy, of {hangs['runs']}", hangs["healthy"], 0, ""))
    if healthy["runs"]:
        found.append(_budget(f"alarms in {healthy['runs']} healthy runs", healthy["alarms"], 0, ""))
    return found


def line(page):
    """All of it in one line."""
    hangs, healthy = (detected.summary(page["rows"], kind) for kind in (detected.STALLS, detected.HEALTHY))
    share = f" ({100 * hangs['right'] / hangs['runs']:.0f} %)" if hangs["runs"] else ""
    told = f"told after {_seconds(hangs['median'])} (median), {_seconds(hangs['worst'])} (worst of {hangs['timed']})"
    untold = f", {hangs['untold']} not told" if hangs["untold"] else ""
    untold += f", {hangs['patient']} not held to that" if hangs["patient"] else ""
    missed = sum(not one["met"] for one in page["targets"])
    return (
        f"{hangs['runs']} hangs beside {page['beside']} busy processes: {hangs['right']} right{share}, {told}{untold}, "
        f"{hangs['healthy']} called healthy; {healthy['runs']} healthy runs: {healthy['alarms']} alarms; "
        f"{_all_met(missed, len(page['targets']))}"
    )


def _all_met(missed, count):
    return f"{missed} of {count} targets MISSED" if missed else "all targets met"


def budgets(rows, watcher, why):
    """What else was measured, beside what it should be: printed, not punished."""
    found = []
    crashes = detected.summary(rows, detected.CRASHES)
    if crashes["runs"]:
        what, worst = "crash, end of the process → printed cause", None if crashes["untold"] else crashes["worst"]
        found.append(_budget(f"{what}, median of {crashes['runs']}", crashes["median"], CRASH, "s"))
        found.append(_budget(f"{what}, worst", worst, CRASH, "s"))
    for kind in (detected.STALLS, detected.CRASHES, detected.OTHERS):
        of = detected.summary(rows, kind)
        if of["runs"]:
            found.append(_budget(f"wrong verdicts in {of['runs']} {kind}", of["runs"] - of["right"], 0, ""))
    if watcher:
        found.append(
            _budget("watcher, 2 ranks with 8 workers each, best window", watcher["best"] * 100, SHARE, "% of a core")
        )
    if why:
        found.append(_budget("`unstuck why PID`, 2 ranks with 4 workers each, best", why["best"], WHY, "s"))
        found.append(_budget("`unstuck why PID`, 2 ranks with 4 workers each, worst", why["worst"], WHY, "s"))
    return found


def _budget(what, measured, limit, unit):
    met = measured is not None and measured <= limit
    return {"what": what, "measured": measured, "at_most": limit, "unit": unit, "met": met}


def text(page):
    out = [page["about"]]
    for kind, title in TITLES.items():
        rows = [one for one in page["rows"] if one["kind"] == kind]
        if rows:
            out += ["", title, f"  {'':{LONGEST}}{HEADS[kind]}  verdict", *(_row(one) for one in rows)]
            out += _summed(detected.summary(page["rows"], kind))
    out += _watcher(page["watcher"]) + _why(page["why"])
    out += ["", "Targets", *(f"  {_verdict(one)}" for one in page["targets"])]
    out += ["", "Budgets", *(f"  {_verdict(one)}" for one in page["budgets"])] if page["budgets"] else []
    for one in page["wrong"]:
        out += ["", f"Wrong: {one['name']}, which expects {one['expect']}", *_indented(one["output"])]
    return "\n".join([*out, "", line(page)])


def _row(one):
    text = f"  {one['name']:{LONGEST}}"
    if "says" in one:
        return f"{text}  {one['says']}"
    if one["kind"] == detected.HEALTHY:
        text += f"{one['looks']:>14}"
    else:
        text += f"{_seconds(one['seconds']):>10}"
    if one["kind"] == detected.STALLS:
        text += f"{_seconds(one.get('looked_after')):>14}{_seconds(one.get('usual')):>13}"
    text += f"  {'right' if one['right'] else 'WRONG: ' + one['verdict']}"
    text += f", FALSE ALARM: {', '.join(one['alarms'])}" if one.get("alarms") else ""
    text += f" ({one['note']})" if one.get("note") else ""
    return text + ("" if one.get("held", True) else " (not held to the targets: what it waits for may take long)")


def _summed(of):
    """A healthy run whose pause ends during the look is never judged live: no alarm there proves little."""
    told = f"{of['right']} of {of['runs']} right"
    if of["median"] is None:
        return [f"  {told}" + (f"; in {of['looked_into']} of them a look was finished" if of["looked_into"] else "")]
    return [f"  {told}; median {of['median']:.2f} s, worst {of['worst']:.2f} s"]


def _watcher(found):
    if not found:
        return []
    shares = ", ".join(f"{share * 100:.2f} %" for share in found["shares"])
    return [
        "",
        "The watcher beside 2 ranks with 8 workers each: its processor time, of one core",
        f"  in windows of 20 s: {shares}",
    ]


def _why(found):
    if not found:
        return []
    title = "`unstuck why PID`, 2 ranks with 4 workers each, not recorded, stuck for 12 s"
    asked = [f"  {one['seconds']:.2f} s, {_told(one)}" for one in found["asked"]]
    again = found["again"]
    return ["", title, *asked, f"  {again['seconds']:.2f} s, {_told(again)}: asked again at once, without a budget"]


def _told(one):
    return f"right ({one['verdict']})" if one["right"] else f"WRONG: {one['verdict']}"


def _seconds(value):
    return "-" if value is None else f"{value:.2f} s"


def _verdict(one):
    word = "met    " if one["met"] else "NOT met"
    measured = "not told" if one["measured"] is None else f"{one['measured']:.3g}"
    return f"{word}  {one['what']}: {measured} of at most {one['at_most']:g} {one['unit']}".rstrip()


def _indented(output, lines=60):
    """The end of what it said, with paths as seen from the repository."""
    return [f"  | {line}".rstrip() for line in output.replace(ROOT, "").rstrip().splitlines()[-lines:]]
