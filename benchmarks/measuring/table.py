"""From measured times to figures, and from figures to a page of text."""

from __future__ import annotations

import statistics

from measuring import loop_names, steps

KIB = 1024


def figure(way, times, plain, base=0.0):
    """One row. `base` is what a step costs besides what was timed; the ratio is of whole steps."""
    best = min(times)
    row = {"way": way, "best": best, "median": statistics.median(times)}
    if plain is not None and times is not plain:
        row["added"] = best - min(plain)
        row["added_in_pairs"] = statistics.median(mine - theirs for mine, theirs in zip(times, plain, strict=True))
        row["ratio"] = (base + best) / (base + min(plain))
    return row


def figures(results, startup, launchers):
    """Every section of the table: a title, a unit and its rows."""
    sections = []
    for loop, (title, base) in loop_names.TITLES.items():
        rows = []
        for way, times in results.times.items():
            if loop in times:
                plain = results.times.get(steps.PLAIN_OF.get(way, steps.PLAIN), {}).get(loop)
                rows.append(figure(way, times[loop], plain, base))
            elif way == steps.TRACEML:
                rows.append({"way": way, "says": "does not time samples"})
        rows.extend({"way": way, "says": f"could not be measured: {why}"} for way, why in results.failed.items())
        sections.append({"name": loop, "title": title, "unit": "µs", "rows": rows})
    for name, times in startup.items():
        rows = [figure(way, found, times[steps.PLAIN]) for way, found in times.items()]
        title = loop_names.STARTUPS[name]
        sections.append({"name": f"startup {name}", "title": title, "unit": "ms", "rows": rows})
    rows = [figure(way, found, launchers.get(steps.PLAIN_OF.get(way, steps.PLAIN))) for way, found in launchers.items()]
    title = "Start-up with a launcher, from the command to the script's imports done"
    sections.append({"name": "launchers", "title": title, "unit": "ms", "rows": rows})
    return sections


def budgets(sections, sizes):
    """What DESIGN.md allows, beside what was measured."""
    added = {
        section["name"]: _held_against(section["unit"], row)
        for section in sections
        for row in section["rows"]
        if row["way"] == steps.RECORDED
    }
    found = [(what, added.get(name), limit, unit) for name, (what, limit, unit) in loop_names.BUDGETS.items()]
    for role, limit in (("main", 4096), ("worker", 256)):
        size = sizes.get(role)
        found.append((f"recording of a {role} process", None if size is None else size / KIB, limit, "KiB"))
    return [
        {
            "what": what,
            "measured": value,
            "at_most": limit,
            "unit": unit,
            "met": None if value is None else value <= limit,
        }
        for what, value, limit, unit in found
    ]


def _held_against(unit, row):
    """Start-ups, whose best may come out below zero by chance, are held to the larger of their two figures."""
    return max(row["added"], row["added_in_pairs"]) if unit == "ms" else row.get("added")


def text(page):
    """The page as people read it."""
    out = [page["about"], ""]
    for section in page["sections"]:
        out += [section["title"], f"  {'':31}{'best':>12}{'median':>12}{'added':>13}{'':17}{'ratio':>8}"]
        out += [_row(row, section["unit"]) for row in section["rows"]]
        out.append("")
    out.append("Written to disk in one such run")
    out += [f"  {line}" for line in page["written"]]
    out += ["", "Budgets"]
    out += [f"  {_verdict(budget)}" for budget in page["budgets"]]
    return "\n".join(out)


def _row(row, unit):
    if "says" in row:
        return f"  {row['way']:31}{row['says']}"
    line = f"  {row['way']:31}{row['best']:>9.2f} {unit}{row['median']:>9.2f} {unit}"
    if "added" in row:
        line += f"{row['added']:>+10.2f} {unit} (in pairs {row['added_in_pairs']:+.2f}){row['ratio']:>8.3f}"
    return line


def _verdict(budget):
    if budget["met"] is None:
        return f"unknown  {budget['what']}: could not be measured (at most {budget['at_most']:g} {budget['unit']})"
    word = "met    " if budget["met"] else "NOT met"
    return f"{word}  {budget['what']}: {budget['measured']:.2f} of at most {budget['at_most']:g} {budget['unit']}"
