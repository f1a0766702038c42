"""A ladder of trials on the terminal: each rung as it is climbed, then the table, the findings, the benchmark."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import IO, Protocol

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..evidence.trial import FAIL, PASS, SKIP, Measured, Note, Rung, Trial
from ..inside.redaction import redacted
from ..report import Report
from ..wording.printable import printable, quoted
from ..wording.text import duration
from .console import printable_report
from .terminal import show

MARKS = {PASS: ("✓ PASS", "green"), FAIL: ("✗ FAIL", "bold red"), SKIP: ("⚠ SKIP", "yellow")}
SHOW_AFTER = 2.0  # seconds: what is faster needs no line while it goes on
EVERY = 10.0  # seconds between two lines where nobody can overwrite one
BAR = 30
NEXT = ("tune", "finds the settings that are fastest here"), ("budget", "predicts memory and /dev/shm")
LONGEST = 110  # characters of a reason while climbing; the table has all of it


class Step(Protocol):
    """What a rung is called."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...


class Climbing:
    """On stderr: one line that moves while a rung is tried, and one for each that has ended."""

    def __init__(self, stream: IO[str], steps: Sequence[Step]) -> None:
        self._stream = stream
        self._width = max(len(one.name) for one in steps)
        self._moves = stream.isatty()
        self._said = 0.0
        self._drawn = False

    def __enter__(self) -> Climbing:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def begins(self, step: Step) -> None:
        self._said = 0.0
        if self._moves:
            self._draw(f"  …      {step.name:<{self._width}}  {step.title}")

    def goes_on(self, step: Step, seconds: float) -> None:
        if seconds < SHOW_AFTER or time.monotonic() - self._said < (0.5 if self._moves else EVERY):
            return
        first, self._said = not self._said, time.monotonic()
        text = f"  …      {step.name:<{self._width}}  {step.title}, {seconds:.0f} s"
        if self._moves:
            self._draw(text)
        elif not first:
            print(text, file=self._stream, flush=True)

    def ended(self, rung: Rung) -> None:
        self._clear()
        mark, _ = MARKS[rung.status]
        took = duration(rung.seconds) if rung.seconds else ""
        reason = printable(redacted(rung.reason))
        reason = reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 1]}…"
        print(f"  {mark} {rung.name:<{self._width}}  {took:>7}  {reason}", file=self._stream, flush=True)

    def _draw(self, text: str) -> None:
        self._clear()
        self._stream.write(text[:99])
        self._stream.flush()
        self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False


def show_doctor(report: Report, notes: list[Note], console: Console, folder: str) -> None:
    report, folder = printable_report(report), printable(folder)
    trial = report.trial
    if trial is None:
        return
    console.print()
    show_rungs(trial, console)
    show_measured(report, trial, console)
    console.print()
    show(report, console, folder)
    _show_traceback(trial, console)
    if any(one.name == "environment" for one in trial.rungs):
        _show_notes(notes, console)
    _show_next(report, trial, console)


def show_rungs(trial: Trial, console: Console) -> None:
    """One line for each; the first that failed is pointed at."""
    table = _table("Test Summary")
    for style in ("bold", "", ""):
        table.add_column(style=style, no_wrap=True)
    table.add_column(overflow="fold")
    first = first_failure(trial)
    for rung in trial.rungs:
        mark, colour = MARKS[rung.status]
        here = Text("← here ", style="bold red") if rung is first else Text("")
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
    table = _table("Benchmark, samples a second")
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
        table.add_row("" if number else "note", Text(f"{note.about} {note.text}{source}"))
    if notes:
        console.print()
        console.print(table)


def _show_traceback(trial: Trial, console: Console) -> None:
    rung = first_failure(trial)
    if rung is None or not rung.traceback:
        return
    console.print()
    console.print(Text(f"Traceback of {rung.name}", style="bold"))
    console.print(Text(rung.traceback.rstrip(), style="dim"), soft_wrap=True)


def _show_next(report: Report, trial: Trial, console: Console) -> None:
    """What to type next, ready to paste."""
    if trial.target is None or report.state in ("crashed", "stuck", "unknown"):
        return
    console.print()
    words = _again(trial)
    for command, why in NEXT:
        said = Text.assemble(("next  ", "bold"), (f"unstuck {command} {words}", "cyan"), f"  # {why}")
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
