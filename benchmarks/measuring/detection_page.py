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
BUDGETS = {detected.STALLS: 15.0, detected.CRASHES: 2.0}
SHARE, WHY = 1.0, 3.0  # per cent of one core, seconds
LONGEST = 37


def budgets(rows, watcher, why):
    """DESIGN.md's own numbers. What was left out has no line."""
    found = []
    for kind, what in ((detected.STALLS, "stall, last progress"), (detected.CRASHES, "crash, end of the process")):
        of = detected.summary(rows, kind)
        if of["runs"]:
            found.append(_budget(f"{what} → printed cause, median of {of['runs']}", of["median"], BUDGETS[kind], "s"))
            found.append(
                _budget(f"{what} → printed cause, worst", None if of["untold"] else of["worst"], BUDGETS[kind], "s")
            )
            found.append(_budget(f"wrong verdicts in {of['runs']} {kind}", of["runs"] - of["right"], 0, ""))
    healthy = [one for one in rows if one["kind"] == detected.HEALTHY and "says" not in one]
    if healthy:
        alarms = sum(bool(one["alarms"]) for one in healthy)
        found.append(_budget(f"false alarms in {len(healthy)} healthy runs", alarms, 0, ""))
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
    out += ["", "Budgets", *(f"  {_verdict(one)}" for one in page["budgets"])]
    for one in page["wrong"]:
        out += ["", f"Wrong: {one['name']}, which expects {one['expect']}", *_indented(one["output"])]
    return "\n".join(out)


def _row(one):
    line = f"  {one['name']:{LONGEST}}"
    if "says" in one:
        return f"{line}  {one['says']}"
    if one["kind"] == detected.HEALTHY:
        line += f"{one['looks']:>14}"
    else:
        line += f"{_seconds(one['seconds']):>10}"
    if one["kind"] == detected.STALLS:
        line += f"{_seconds(one.get('looked_after')):>14}{_seconds(one.get('usual')):>13}"
    line += f"  {'right' if one['right'] else 'WRONG: ' + one['verdict']}"
    line += f", FALSE ALARM: {', '.join(one['alarms'])}" if one.get("alarms") else ""
    line += f" ({one['note']})" if one.get("note") else ""
    return line + ("" if one.get("held", True) else " (not held to the budget: it usually takes long)")


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
