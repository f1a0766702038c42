"""The trainings on this machine, one row each."""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..report import Training
from ..wording.language import word
from ..wording.printable import printable, printable_json
from ..wording.text import duration, many
from ..wording.texts import every_text


def show_trainings(found: list[Training], console: Console) -> None:
    if not found:
        console.print(word("No PyTorch training is visible on this machine (those of other users: only as root)."))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("pid", "command", "runs for", "processes", "doing"):
        table.add_column(word(name), justify="right" if name == "pid" else "left", overflow="fold")
    for one in every_text(found, printable):
        recorded = f"\n{word(f'recorded in {one.folder}')}" if one.folder else ""
        processes = f"{one.processes} ({word(many(one.ranks, 'rank'))}, {word(many(one.workers, 'worker'))})"
        command, doing = Text(one.command + recorded), Text("\n".join(one.doing))  # theirs: no markup of ours
        table.add_row(str(one.pid), command, duration(one.age), processes, doing)
    console.print(table)
    console.print(f"[dim]unstuck why {found[0].pid}[/dim]")


def as_json(found: list[Training]) -> str:
    return printable_json(
        msgspec.json.format(msgspec.json.encode({"schema": 1, "trainings": found}), indent=2).decode()
    )
