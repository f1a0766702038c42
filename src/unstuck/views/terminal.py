"""A report on the terminal. Alone: `python -m unstuck.views.terminal report.json`."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..evidence.finding import Finding
from ..evidence.process import Step
from ..report import NOTHING, Activity, Report, Spent, StageTime
from ..wording.printable import printable
from ..wording.text import duration, kind_in_words, line, percent, size, slow_in_words
from ..wording.texts import every_text
from .console import PrintableConsole, console_for, printable_report

__all__ = ["STAGES", "START", "console_for", "finding_text", "show"]
START, STAGES = "start", "stages"  # sections that can be asked for
MOST_RULES = 4  # that are named; more would bury the rest
MOST_TIMES = 8  # rows: what comes after these is small
STANDING = ("stuck", "waiting", "unknown")  # states in which it matters where each rank stands
COLOURS = {
    "crashed": "red",
    "stuck": "red",
    "stopped": "yellow",
    "waiting": "cyan",
    "wrong": "magenta",
    "slow": "yellow",
    "healthy": "green",
    "unknown": "cyan",
}
STARTING, DATA = "start-up", "data"  # answers to: what is the limit?
MOST_STAGES = 6  # stages: what comes after these is small


def finding_text(finding: Finding, width: int) -> str:
    """One finding as plain text."""
    out = io.StringIO()
    console = PrintableConsole(file=out, width=width, highlight=False, emoji=False, color_system=None)
    _show_finding(every_text(finding, printable), [], console)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(report: Report, console: Console, folder: str = "", more: tuple[str, ...] = ()) -> None:
    """`more`: sections that were asked for, start and stages. Else they are shown where they matter."""
    report, folder = printable_report(report), printable(folder)
    colour = COLOURS.get(report.state, "cyan")
    if _is_plain(report):
        _show_line(report, console, folder)
        _show_loading(report, console, more)
        return
    title = Text.assemble(("unstuck", "bold"), " · ", (report.state, f"bold {colour}"))
    console.print(Rule(title, style=colour, align="left"))
    roots = [one for one in report.findings if one.role == "root"]
    for number, finding in enumerate(roots):
        if number:
            console.print()
        _show_finding(finding, report.findings, console)
    if not roots:
        console.print(_no_finding(report))
    _show_time(report, console)
    matter = [name for name, wanted in ((START, _wants_start), (STAGES, _wants_stages)) if wanted(report)]
    _show_loading(report, console, (*more, *matter))
    _show_footer(report, console, folder, roots)


def _is_plain(report: Report) -> bool:
    """Healthy, and nothing else to tell; or it ended well, and nothing of a training was seen in it."""
    live = any(one.live for one in report.activities) or any(one.going_on for one in report.start)
    more = report.findings or report.notes or report.spent or live
    healthy = report.state == "healthy" and not report.not_checked
    return not more and (healthy or _is_no_training(report))


def _is_no_training(report: Report) -> bool:
    return report.state == "unknown" and len(report.unsettled) == 1 and report.unsettled[0].startswith(NOTHING)


def _show_line(report: Report, console: Console, folder: str) -> None:
    """A run that is well deserves one line."""
    cost = "" if report.unsettled else _cost(report)
    parts = [*(one.rstrip(".") for one in report.unsettled), report.summary, report.framework, _limit(report), cost]
    parts.append(folder)
    line = Text.assemble(("unstuck", "bold"), " · ", (report.state, f"bold {COLOURS[report.state]}"))
    line.append("".join(f" · {one}" for one in parts if one))
    console.print(line, soft_wrap=True)


def _limit(report: Report) -> str:
    """What the limit of the run is, unless that cannot be told."""
    found = report.bottleneck
    return "" if found is None or found.answer == "unknown" else found.text.rstrip(".")


def _show_finding(finding: Finding, others: list[Finding], console: Console) -> None:
    colour = COLOURS.get(finding.symptom, "cyan")
    console.print(Text(finding.cause, style=f"bold {colour}"))
    console.print(Text(_whereabouts(finding), style="dim"))
    table = _table()
    for number, seen in enumerate(finding.seen):
        table.add_row("seen" if number == 0 else "", Text(seen))
    table.add_row("do", Text(finding.remedy.text))
    for command in finding.remedy.commands:
        table.add_row("", Text(f"$ {command}", style="cyan"))
    for other in others:
        if other.because_of == finding.rule and other.cause not in finding.cause:
            table.add_row("so", Text(f"{other.cause} ({other.rule})", style="dim"))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _whereabouts(finding: Finding) -> str:
    parts = [finding.rule, *([finding.certainty] if finding.certainty else [])]
    if finding.where is not None:
        parts.append(line(finding.where))
    if finding.onset_s is not None:
        parts.append(f"{duration(finding.onset_s)} after the start")
    return " · ".join(parts)


def _no_finding(report: Report) -> Text:
    if report.state == "healthy":
        return Text("Nothing found.")
    if report.unsettled:
        return Text("\n".join(report.unsettled))
    return Text("No rule has found a cause. That does not mean that there is none.")


def _show_loading(report: Report, console: Console, sections: tuple[str, ...]) -> None:
    if START in sections:
        _show_start(report, console)
    if STAGES in sections:
        _show_stages(report, console)


def _show_time(report: Report, console: Console) -> None:
    table = _table_of_times()
    for number, one in enumerate(report.spent[:MOST_TIMES]):
        table.add_row("time" if number == 0 else "", percent(one.share), Text(_spent(one)))
    if report.spent:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _spent(one: Spent) -> str:
    role = "workers" if one.role == "workers" else "main thread"
    whose = role if one.rank is None else f"{role} of rank {one.rank}"
    at = f" at {line(one.where)} ({one.where.function})" if one.where is not None else ""
    return f"{whose}: {one.what}{at}"


def _activity(one: Activity, *, stuck: bool) -> str:
    """rank 0: waiting for data at train.py:12; 18 of 300 batches; in EPOCH 0 TRAINING, waiting for batch 19 of 300."""
    whose = "" if one.rank is None else f"rank {one.rank}: "
    have = "" if one.have is None else f"; {one.have:,}{f' of {one.need:,}' if one.need else ''} {one.unit}".rstrip()
    have = f"; {one.between}" if stuck and one.between else have
    stands = "" if one.moving or one.since_s < 1 else f"; nothing of it has moved for {duration(one.since_s)}"
    return f"{whose}{one.doing}{have}{stands}"


def _rules(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_RULES else f"{len(names)} rules"


def _show_footer(report: Report, console: Console, folder: str, roots: list[Finding]) -> None:
    table = _table()
    for number, one in enumerate(one for one in report.activities if one.live):
        table.add_row("now" if number == 0 else "", Text(_activity(one, stuck=report.state in STANDING)))
    if report.bottleneck is not None and _limit(report) and report.state not in STANDING:
        table.add_row("limit", Text("; ".join([_limit(report), *report.bottleneck.seen])))
    if report.meaning and report.state in STANDING:
        table.add_row("means", Text(report.meaning))
    for note in report.notes:
        table.add_row("note", Text(note, style="yellow"))
    for missing in report.not_checked:
        table.add_row("not checked", Text(f"{_rules(missing.rules)} (needs: {missing.needs})", style="dim"))
    more = Text(f"unstuck explain {roots[0].rule}", style="cyan") if roots else ""
    rest = {"with": report.framework, "more": more, "run": folder, "cost": Text(_cost(report), style="dim")}
    for name, value in rest.items():
        if value:
            table.add_row(name, value if isinstance(value, Text) else Text(value))
    if table.row_count:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _cost(report: Report) -> str:
    overhead = report.overhead
    if not overhead.recorded_bytes:
        return ""
    share = f" ({overhead.share_of_step * 100:.2g} % of the loop)" if overhead.share_of_step else ""
    parts = [f"{duration(overhead.total_ms / 1e3)} of recording{share}"]
    if overhead.per_step_us is not None:
        parts.append(f"{overhead.per_step_us:.3g} µs a step")
    if overhead.per_sample_us is not None:
        parts.append(f"{overhead.per_sample_us:.3g} µs a sample")
    parts.append(f"{size(overhead.recorded_bytes)} on disk")
    return ", ".join(parts)


def _table() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _wants_start(report: Report) -> bool:
    """The first step is still to come, or the way to it took most of the run."""
    starting = report.bottleneck is not None and report.bottleneck.answer == STARTING
    return starting or any(one.going_on for one in report.start)


def _wants_stages(report: Report) -> bool:
    """Data is the limit, and more is known of loading than that it takes time."""
    slow = report.bottleneck is not None and report.bottleneck.answer == DATA
    return slow and len({one.name for one in report.stages}) > 2


def _show_start(report: Report, console: Console) -> None:
    table = _table_of_times()
    for number, one in enumerate(report.start):
        table.add_row("start" if number == 0 else "", duration(one.seconds), Text(_step(one, many=_ranks(report) > 1)))
    if report.start:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _show_stages(report: Report, console: Console) -> None:
    if not report.stages:
        return
    most = max(report.stages, key=lambda one: one.seconds)
    rows = [one for one in report.stages if (one.rank, one.loader) == (most.rank, most.loader)][:MOST_STAGES]
    table = _table_of_times()
    for number, one in enumerate(rows):
        table.add_row("loading" if number == 0 else "", percent(one.share), Text(_stage(one)))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _stage(one: StageTime) -> str:
    """decode (Image.load): 12 ms each, p50 11 ms, p95 30 ms, at most 1.2 s; computing; slowest 7.jpg with 1.2 s."""
    times = [f"{duration(one.mean)} each"]
    times += [f"p50 {duration(one.p50)}"] if one.p50 else []
    times += [f"p95 {duration(one.p95)}"] if one.p95 else []
    times += [f"at most {duration(one.longest)}"] if one.longest else []
    parts = [", ".join(times), kind_in_words(one.kind, one.processor) if one.kind else ""]
    parts += [f"slowest {slow_in_words(one.slowest[0])}"] if one.slowest and one.name != "process" else []
    return f"{one.name}: {'; '.join(part for part in parts if part)}"


def _step(one: Step, *, many: bool) -> str:
    whose = f"rank {one.rank}: " if many and one.rank is not None else ""
    going_on = ", and goes on" if one.going_on else ""
    return f"{whose}{one.name}{going_on}{f': {one.told}' if one.told else ''}"


def _ranks(report: Report) -> int:
    return len({one.rank for one in report.start})


def _table_of_times() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    return table


if __name__ == "__main__":
    show(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Report), console_for(sys.stdout))
