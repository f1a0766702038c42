"""What `unstuck tune` found: table, plot, three settings. Alone: `python -m unstuck.views.tuning report.json`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..evidence.trial import FAIL, Measured, Search, Trial
from ..report import Report
from ..wording.language import word
from ..wording.printable import printable
from ..wording.text import duration, many, percent, size
from .block import show_finding
from .console import console_for, printable_report

BAR = 40  # characters of the longest bar
FROM = {
    "page cache": "the data came from memory (page cache, or none was read): a first epoch from the disk can be slower",
    "disk": "the data came from the disk",
    "disk first": "the data came from the disk at first, then from the page cache",
}


def show(report: Report, console: Console, folder: str = "", *, verbose: bool = False) -> None:
    report, folder = printable_report(report), printable(folder)
    trial = report.trial
    if trial is None or trial.search is None:
        return
    console.print(Text.assemble(("unstuck tune", "bold"), f" · {trial.target.name if trial.target else ''}"))
    for finding in report.findings:
        if finding.role == "root":
            show_finding(finding, report.findings, console, verbose=verbose)
    for rung in trial.rungs:
        if rung.status == FAIL and not report.findings:
            how = "Not everything could be measured" if trial.proposals else "Nothing could be measured"
            console.print(Text(f"{word(how)}: {printable(rung.reason)}"))
    if trial.measured:
        _show_table(trial, console)
        _show_plot(trial.measured, trial.search, console)
    _show_proposals(trial, trial.search, console)
    _show_rest(trial.search, console, folder)


def _show_table(trial: Trial, console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    fed = any(one.starved is not None for one in trial.measured)
    for name in (
        "workers",
        "prefetch",
        "order",
        "samples/s",
        "±",
        "start-up",
        "memory",
        *(["waits"] if fed else []),
        "",
    ):
        table.add_column(word(name), justify="left" if name in ("order", "") else "right", no_wrap=bool(name))
    own = trial.target.loader if trial.target is not None else None
    for one in trial.measured:
        mark = (
            word("as it is")
            if own is not None and _same(one, own.num_workers, own.prefetch_factor, own.in_order)
            else ""
        )
        table.add_row(*_row(one, fed=fed), Text(one.failed or mark, style="red" if one.failed else "dim"))
    console.print(Padding(table, (1, 0, 0, 2), expand=False))


def _same(one: Measured, workers: int, prefetch: int | None, in_order: bool) -> bool:
    depth = (prefetch or 2) if workers else None
    return not one.context and (one.workers, one.prefetch, one.in_order) == (workers, depth, in_order)


def _row(one: Measured, *, fed: bool) -> list[str]:
    start = " ".join(filter(None, [word("in order" if one.in_order else "any"), one.context])) if one.workers else "-"
    cells = [str(one.workers), str(one.prefetch or "-"), start]
    if one.failed:
        return [*cells, word("failed"), "", "", "", *([""] if fed else [])]
    figures = [_rate(one), percent(one.noise), duration(one.start)]
    waits = [percent(one.starved) if one.starved is not None else "-"] if fed else []
    return [*cells, *figures, size(one.memory) if one.memory else "-", *waits]


def _show_plot(measured: list[Measured], search: Search, console: Console) -> None:
    """The best of each number of workers; the number that the usual formula gives is marked."""
    best: dict[int, Measured] = {}
    for one in measured:
        if not one.failed and one.step is None and one.rate > getattr(best.get(one.workers), "rate", 0.0):
            best[one.workers] = one
    if len(best) < 2:
        return
    top = max(one.rate for one in best.values())
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for workers in sorted({*best, *([search.formula] if search.formula else [])}):
        mark = f"◂ {word('the usual formula')}" if workers and workers == search.formula else ""
        found = best.get(workers)
        bar = (
            Text("█" * max(round(found.rate / top * BAR), 1), style="green" if found.rate == top else "blue")
            if found
            else Text(word("not measured"), style="dim")
        )
        bar.append(f" {_rate(found)}" if found else "")
        table.add_row(str(workers), bar, Text(mark, style="yellow"))
    needed = f", {word(f'{search.needed:,.0f} needed')}" if search.needed else ""
    console.print(
        Padding(Text(f"{word('samples/s by num_workers')}{needed}", style="bold"), (1, 0, 0, 2), expand=False)
    )
    console.print(Padding(table, (0, 0, 1, 2), expand=False))


def _show_proposals(trial: Trial, search: Search, console: Console) -> None:
    for proposal in trial.proposals:
        one = proposal.setting
        memory = (
            f"{size(proposal.memory)} {word('of')} {size(search.memory)}"
            if proposal.memory
            else word("memory not measured")
        )
        told = f"{_rate(one)} samples/s ± {percent(one.noise)}, {memory}: {proposal.why}"
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True, min_width=8)
        table.add_column(overflow="fold")
        table.add_row(word(proposal.name), Text(told))
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
        console.print(Text(f"            {proposal.code}", style="cyan"), soft_wrap=True)


def _rate(one: Measured) -> str:
    return f"{one.rate:,.0f}" if one.rate >= 1000 else f"{one.rate:.4g}"


def _show_rest(search: Search, console: Console, folder: str) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    if search.step is not None:
        table.add_row(
            word("step"),
            Text(f"{duration(search.step)} ({search.step_of}): {word(f'needs {search.needed or 0:,.0f} samples/s')}"),
        )
    table.add_row(word("formula"), Text(f"{search.formula_said}; {word('what was measured counts')}"))
    table.add_row(
        word("debug"),
        Text(f"{search.debug}: {word('errors show their whole stack; prefetch_factor has no effect without workers')}"),
    )
    for number, note in enumerate(search.notes):
        table.add_row("" if number else word("also"), Text(note))
    if search.settings:
        table.add_row(word("measured"), Text(_told(search)))
    if folder:
        table.add_row(word("kept"), Text(folder))
    console.print(Padding(table, (1, 0, 0, 2), expand=False))


def _told(search: Search) -> str:
    told = f"{many(search.settings, 'setting')} in {duration(search.seconds)}, of {search.grid} in the whole grid"
    return "; ".join(word(one) for one in (told, search.stopped, FROM.get(search.data, "")) if one)


if __name__ == "__main__":
    show(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Report), console_for(sys.stdout))
