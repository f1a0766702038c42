"""A prediction of memory on the terminal: each term as the multiplication it is, the sum, and what there is."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..evidence.trial import IMPOSSIBLE, SAFE, TIGHT, Alternative, Budget, Loaded, Trial
from ..report import Report
from ..wording.language import word
from ..wording.text import duration, many, size
from .console import printable_report
from .terminal import show

COLOURS = {SAFE: "green", TIGHT: "yellow", IMPOSSIBLE: "red"}
WIDTH = 30  # characters of a bar
WHOSE = {"machine": "available on this machine", "cgroup": "left in this cgroup", "--memory": "asked for (--memory)"}


def show_budget(report: Report, console: Console, folder: str = "", *, verbose: bool = False) -> None:
    report = printable_report(report)
    trial = report.trial
    if trial is not None and trial.budget is not None:
        _show(trial, trial.budget, console)
    if report.findings or trial is None or trial.budget is None:
        console.print()
        show(report, console, folder, verbose=verbose)


def _show(trial: Trial, budget: Budget, console: Console) -> None:
    worst = max((budget.grade, budget.shm_grade or SAFE), key=(SAFE, TIGHT, IMPOSSIBLE).index)
    console.print(Text.assemble(("unstuck budget", "bold"), " · ", (word(worst), f"bold {COLOURS[worst]}")))
    console.print(Text(_plan(trial, budget)))
    if trial.samples:
        console.print(Text(_samples(trial.samples), style="dim"))
    console.print(Padding(_terms(budget), (1, 0, 1, 2), expand=False))
    console.print(Padding(_against(budget), (0, 0, 0, 2), expand=False))


def _plan(trial: Trial, budget: Budget) -> str:
    ahead = f", prefetch {budget.prefetch}" if budget.workers else f": {word('nothing is loaded ahead')}"
    ranks = ", " + word(f"{many(budget.ranks, 'rank')} on this node") if budget.ranks > 1 else ""
    whole = trial.target is not None and trial.target.loader is not None and trial.target.loader.batch_sampler is None
    batch = word("batches made by the dataset" if whole else f"batches of {budget.batch}")
    name = f"{trial.target.name}: " if trial.target is not None else ""
    return f"{name}{batch}, {word(many(budget.workers, 'worker'))}{ahead}{ranks}"


def _samples(samples: list[Loaded]) -> str:
    one = samples[-1]
    seconds = sum(each.seconds for each in samples) / len(samples)
    held = sum(each.held for each in samples) / len(samples)
    loaded = word(f"{many(len(samples), 'sample')} loaded")
    return f"{loaded}: {one.shapes or word('no tensors')}, {size(held)}, {word(f'{duration(seconds)} each')}"


def _terms(budget: Budget) -> Table:
    table, largest = Table.grid(padding=(0, 2)), budget.largest()
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for one in budget.terms:
        style = "bold" if one is largest and len(budget.terms) > 1 else ""
        lies = f" · {word('in /dev/shm')}" if one.shm else ""
        mark = f" ◀ {word('the largest')}" if style else ""
        table.add_row(
            Text(word(one.name), style), Text(size(one.size), style), Text.assemble(one.how, (f"{lies}{mark}", "dim"))
        )
    table.add_row("", Text("─" * 9, style="dim"), "")
    table.add_row(Text(word("one rank"), "bold"), Text(size(budget.rank), "bold"), "")
    if budget.ranks > 1:
        how = f"{word(many(budget.ranks, 'rank'))} × {size(budget.rank)}"
        table.add_row(Text(word("this node"), "bold"), Text(size(budget.node), "bold"), how)
    return table


def _against(budget: Budget) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    whose = WHOSE.get(budget.memory_of, budget.memory_of)
    table.add_row(word("memory"), _bar(budget.node, budget.memory, budget.grade, word(whose)))
    if budget.shm and budget.shm_free is not None:
        whose = {"--shm": "asked for (--shm)", "machine": "free here"}.get(budget.shm_of, f"({budget.shm_of})")
        table.add_row("/dev/shm", _bar(budget.shm, budget.shm_free, budget.shm_grade, word(whose)))
    for name, lines in (("safer", list(_safer(budget.safer))), ("assumed", budget.assumed), ("note", budget.notes)):
        for number, line in enumerate(lines):
            table.add_row(word(name) if not number else "", Text(line, style="cyan" if name == "safer" else ""))
    return table


def _bar(needed: int, there: int, grade: str, whose: str) -> Text:
    full = min(round(WIDTH * needed / max(there, 1)), WIDTH)
    bar = ("█" * full, COLOURS[grade]), ("░" * (WIDTH - full), "dim")
    times = (
        f" ({word(f'{needed / max(there, 1):.1f} times')})" if needed > there else f" ({needed / max(there, 1):.0%})"
    )
    return Text.assemble(
        *bar, f" {size(needed)} {word('of')} {size(there)} {whose}{times}: ", (word(grade), f"bold {COLOURS[grade]}")
    )


def _safer(others: list[Alternative]) -> Iterator[str]:
    for one in others:
        shm = f", {word(f'{size(one.shm)} of it in /dev/shm')}" if one.shm else ""
        yield f"{one.setting}: {size(one.node)}{shm}, {word(one.grade)}"
