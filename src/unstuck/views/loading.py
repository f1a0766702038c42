"""The way to the first step, and where the time of loading samples goes: two tables of a report on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..evidence.process import Step
from ..report import Report, StageTime
from ..wording.text import duration, kind_in_words, percent, slow_in_words

STARTING, DATA = "start-up", "data"  # answers to: what is the limit?
MOST = 6  # stages: what comes after these is small


def wants_start(report: Report) -> bool:
    """The first step is still to come, or the way to it took most of the run."""
    starting = report.bottleneck is not None and report.bottleneck.answer == STARTING
    return starting or any(one.going_on for one in report.start)


def wants_stages(report: Report) -> bool:
    """Data is the limit, and more is known of loading than that it takes time."""
    slow = report.bottleneck is not None and report.bottleneck.answer == DATA
    return slow and len({one.name for one in report.stages}) > 2


def show_start(report: Report, console: Console) -> None:
    table = _table()
    for number, one in enumerate(report.start):
        table.add_row("start" if number == 0 else "", duration(one.seconds), Text(_step(one, many=_ranks(report) > 1)))
    if report.start:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def show_stages(report: Report, console: Console) -> None:
    if not report.stages:
        return
    most = max(report.stages, key=lambda one: one.seconds)
    rows = [one for one in report.stages if (one.rank, one.loader) == (most.rank, most.loader)][:MOST]
    table = _table()
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


def _table() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    return table
