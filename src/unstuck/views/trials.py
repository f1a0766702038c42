"""A ladder of trials on the terminal, when it has been climbed: the table, the findings, the benchmark."""

from __future__ import annotations

import json
import sys

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..evidence.trial import FAIL, PASS, SKIP, Measured, Note, Rung, Trial
from ..report import Report
from ..wording.language import word
from ..wording.printable import printable, quoted
from ..wording.text import duration
from .console import printable_report
from .terminal import show

MARKS = {PASS: ("✓ PASS", "green"), FAIL: ("✗ FAIL", "bold red"), SKIP: ("⚠ SKIP", "yellow")}
BAR = 30
NEXT = ("tune", "finds the settings that are fastest here"), ("budget", "predicts memory and /dev/shm")


def show_doctor(report: Report, notes: list[Note], console: Console, folder: str, *, verbose: bool = False) -> None:
    report, folder = printable_report(report), printable(folder)
    trial = report.trial
    if trial is None:
        return
    console.print()
    show_rungs(trial, console)
    show_measured(report, trial, console)
    console.print()
    show(report, console, folder, verbose=verbose)
    _show_traceback(trial, console)
    if any(one.name == "environment" for one in trial.rungs):
        _show_notes(notes, console)
    _show_next(report, trial, console)


def show_rungs(trial: Trial, console: Console) -> None:
    """One line for each; the first that failed is pointed at."""
    table = _table(word("Test Summary"))
    for style in ("bold", "", ""):
        table.add_column(style=style, no_wrap=True)
    table.add_column(overflow="fold")
    first = first_failure(trial)
    for rung in trial.rungs:
        mark, colour = MARKS[rung.status]
        here = Text(f"← {word('here')} ", style="bold red") if rung is first else Text("")
        took = duration(rung.seconds) if rung.seconds else ""
        table.add_row(rung.name, Text(mark, style=colour), took, here + Text(printable(rung.reason)))
    console.print(table)


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1), show_header=False
    )  # fmt: skip


def first_failure(trial: Trial) -> Rung | None:
    return next((one for one in trial.rungs if one.status == FAIL), None)


def show_measured(report: Report, trial: Trial, console: Console) -> None:
    """Samples a second, as bars; then what the differences say."""
    known = [one for one in trial.measured if one.rate]
    if not known:
        return
    most = max(one.rate for one in known)
    table = _table(word("Benchmark, samples per second"))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for one in trial.measured:
        table.add_row(*_bar(one, most))
    console.print()
    console.print(table)
    for line in () if any(trial.limit_seen[0] in one.seen for one in report.findings) else trial.limit_seen:
        console.print(Padding(Text(line), (0, 0, 0, 2)))


def _bar(one: Measured, most: float) -> tuple[str, str, str, str]:
    if not one.rate:
        return one.name, "-", "", one.failed
    noise = f"± {one.noise * 100:.0f} %"
    rate = f"{one.rate:,.0f}/s" if one.rate >= 100 else f"{one.rate:.3g}/s"
    return one.name, rate, "█" * max(1, round(BAR * one.rate / most)), noise


def _show_notes(notes: list[Note], console: Console) -> None:
    """On variables and versions: true, and rarely the cause."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold dim", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    for number, note in enumerate(notes):
        source = f" ({note.source})" if note.source else ""
        table.add_row("" if number else word("note"), Text(f"{note.about} {note.text}{source}"))
    if notes:
        console.print()
        console.print(table)


def _show_traceback(trial: Trial, console: Console) -> None:
    rung = first_failure(trial)
    if rung is None or not rung.traceback:
        return
    console.print()
    console.print(Text(word(f"Traceback of {rung.name}"), style="bold"))
    console.print(Text(rung.traceback.rstrip(), style="dim"), soft_wrap=True)


def _show_next(report: Report, trial: Trial, console: Console) -> None:
    """What to type next, ready to paste."""
    if trial.target is None or report.state in ("crashed", "stuck", "unknown"):
        return
    console.print()
    words = _again(trial)
    for command, why in NEXT:
        said = Text.assemble((f"{word('next')}  ", "bold"), (f"unstuck {command} {words}", "cyan"), f"  # {word(why)}")
        console.print(said, soft_wrap=True)  # it is to be pasted


def _again(trial: Trial) -> str:
    if trial.target is None:
        return ""
    kwargs = f" --kwargs {quoted(json.dumps(trial.target.kwargs))}" if trial.target.kwargs else ""
    return f"{quoted(trial.target.name)}{kwargs}"


if __name__ == "__main__":
    from pathlib import Path

    import msgspec

    from .console import console_for

    show_doctor(
        msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Report), [], console_for(sys.stdout), sys.argv[1]
    )
