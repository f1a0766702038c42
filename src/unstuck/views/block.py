"""The block of one finding: what happened, where, what to do, why, and what stood on the screen.

Line 1 can be grepped and silenced by its id. Commands and code stand alone on their lines and are never wrapped.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from ..evidence.basics import Place
from ..evidence.finding import Finding, Remedy
from ..wording.language import word
from ..wording.text import duration

COLOURS = {
    "crashed": "red",
    "stuck": "red",
    "stopped": "yellow",
    "waiting": "cyan",
    "wrong": "magenta",
    "leaking": "magenta",
    "bad data": "magenta",
    "slow": "yellow",
    "healthy": "green",
    "unknown": "cyan",
}
MARKS = {"healthy": "✓", "unknown": "?", "waiting": "!", "slow": "!"}  # of all else: ✗
MOST_EVIDENCE = 3  # lines; --verbose has all
MOST_CONSEQUENCES = 3
LONGEST_SOURCE = 60  # characters of a line of code
LABELS = ("fix", "or", "why", "saw", "also", "help", "run", "limit", "means", "note", "start", "time", "load")
INDENT = 2
CODE_INDENT = 13
RANKS_INDENT = 6
NARROWEST = 20  # columns for a text, however narrow the terminal is
AMOUNT = 6  # columns for a share or a duration


def show_finding(
    finding: Finding,
    others: Sequence[Finding],
    console: Console,
    *,
    ranks: Sequence[tuple[str, str]] = (),
    verbose: bool = False,
) -> None:
    """`ranks`: what each of them does, under the block that is about them."""
    _show_headline(finding, console)
    _show_place(finding, console)
    if ranks:
        show_ranks(ranks, console)
    _show_ways(finding, console)
    _show_evidence(finding, console, verbose=verbose)
    if finding.saw:
        show_row("saw", Text(finding.saw), console)
    _show_consequences(finding, others, console, verbose=verbose)


def show_ranks(ranks: Sequence[tuple[str, str]], console: Console) -> None:
    """A row each: the rank, and what it is doing."""
    width = max(cell_len(name) for name, _ in ranks)
    console.print()
    for name, doing in ranks:
        show_hanging(Text(name + " " * (width - cell_len(name) + 3)), Text(doing), console, RANKS_INDENT)
    console.print()


def headline(state: str, rule: str = "") -> Text:
    """`✗ stuck[ddp-uneven-batches]`."""
    colour = COLOURS.get(state, "cyan")
    name = f"[{rule}]" if rule else ""
    return Text(f"{MARKS.get(state, '✗')} {word(state)}{name}", style=f"bold {colour}")


def _show_headline(finding: Finding, console: Console) -> None:
    told = Text.assemble(headline(finding.symptom, finding.rule), "  ", (finding.cause.rstrip("."), "bold"))
    certainty = word(finding.certainty)
    room = console.width - cell_len(told.plain) - cell_len(certainty) - 2
    if certainty and room >= 0:
        told.append(" " * (room + 2))
        told.append(certainty, style="dim")
        show_whole(told, console)
        return
    if certainty and not _has_place(finding):
        told.append(f"  {certainty}", style="dim")
    for number, line in enumerate(told.wrap(console, max(console.width - INDENT, NARROWEST), overflow="fold")):
        line.rstrip()
        show_whole(Text.assemble(" " * INDENT if number else "", line), console)


def _show_place(finding: Finding, console: Console) -> None:
    """`--> train.py:37  loss.backward()`, how sure it is if line 1 had no room for that, and since when."""
    since = word(f"{duration(finding.onset_s)} after the start") if finding.onset_s is not None else ""
    told = cell_len(headline(finding.symptom, finding.rule).plain + finding.cause.rstrip(".")) + 4
    late = word(finding.certainty) if told + cell_len(word(finding.certainty)) > console.width else ""
    if not _has_place(finding):
        return
    left = Text.assemble(("--> ", "dim"), _place(finding.where)) if finding.where is not None else Text(_whom(finding))
    rest = " · ".join(part for part in (since, late) if part)
    source = Text(_shortened(finding.source), style="cyan")
    parts = [part for part in (left, source, Text(rest, style="dim")) if part.plain]
    whole = Text("  ").join(parts)
    if not source.plain or cell_len(whole.plain) + INDENT <= console.width:
        show_hanging(Text(), whole, console)
        return
    show_hanging(Text(), Text("  ").join(part for part in parts if part is not source), console)
    show_hanging(Text(), source, console, RANKS_INDENT)


def _has_place(finding: Finding) -> bool:
    return finding.where is not None or finding.onset_s is not None or bool(_whom(finding))


def _place(where: Place) -> Text:
    """Relative to where the reader is, and to be clicked where the terminal can."""
    shown = f"{from_here(where.file)}:{where.line}" if where.line else from_here(where.file)
    link = Style(link=Path(where.file).as_uri()) if where.file.startswith("/") else Style()
    return Text(shown, style=link)


def from_here(path: str) -> str:
    try:
        return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else path
    except OSError:  # the folder we are in is gone
        return path


def _whom(finding: Finding) -> str:
    known = (("rank", finding.rank), ("worker", finding.worker), ("pid", finding.pid))
    parts = [f"{name} {value}" for name, value in known if value is not None]
    return f"--> {', '.join(parts)}" if parts else ""


def _shortened(source: str) -> str:
    return source if len(source) <= LONGEST_SOURCE else f"{source[: LONGEST_SOURCE - 1]}…"


def _show_ways(finding: Finding, console: Console) -> None:
    """The fix, then the other ways out."""
    for number, way in enumerate((finding.remedy, *finding.alternatives)):
        show_row("or" if number else "fix", Text(way.text), console)
        _show_lines(way, console)


def _show_lines(way: Remedy, console: Console) -> None:
    for line in (*way.code, *way.commands):
        show_alone(line, console)


def show_alone(line: str, console: Console) -> None:
    """What can be pasted: however long it is, it stays on one line."""
    show_whole(Text(" " * CODE_INDENT + line, style="cyan"), console)


def _show_evidence(finding: Finding, console: Console, *, verbose: bool) -> None:
    shown = finding.seen if verbose or len(finding.seen) <= MOST_EVIDENCE + 1 else finding.seen[:MOST_EVIDENCE]
    for number, line in enumerate(shown):
        show_row("" if number else "why", Text(line), console)
    if len(shown) < len(finding.seen):
        show_row("", Text(f"+ {len(finding.seen) - len(shown)} (--verbose)", style="dim"), console)


def _show_consequences(finding: Finding, others: Sequence[Finding], console: Console, *, verbose: bool) -> None:
    found = [other for other in others if other.because_of == finding.rule and not _is_told(other, finding)]
    for number, other in enumerate(found if verbose else found[:MOST_CONSEQUENCES]):
        show_row("" if number else "also", Text(f"{other.cause.rstrip('.')} ({other.rule})", style="dim"), console)
    if not verbose and len(found) > MOST_CONSEQUENCES:
        show_row("", Text(f"+ {len(found) - MOST_CONSEQUENCES} (--verbose)", style="dim"), console)


def _is_told(other: Finding, finding: Finding) -> bool:
    """By the cause, or as the error on the screen; that a main process raised the very same adds nothing."""
    error = finding.saw.partition(": ")[2] or finding.saw
    message = other.cause.partition(": ")[2].rstrip(".… ")
    again = bool(message) and (message in finding.cause or message in finding.saw)
    return again or other.cause in finding.cause or bool(error and error in other.cause)


def show_row(label: str, text: Text, console: Console, amount: str | None = None) -> None:
    """One row of the block; `amount`: a number that stands in a column of its own."""
    width = max(cell_len(word(each)) for each in LABELS)
    first = word(label) if label else ""
    head = Text.assemble((first, "bold"), " " * (width - cell_len(first) + 2))
    if amount is not None:
        head.append(f"{amount:>{AMOUNT}}  ")
    show_hanging(head, text, console)


def show_hanging(head: Text, text: Text, console: Console, indent: int = INDENT) -> None:
    """Lines that follow the first begin where its text does. No line ends in blanks."""
    start = indent + cell_len(head.plain)
    for number, line in enumerate(text.wrap(console, max(console.width - start, NARROWEST), overflow="fold")):
        line.rstrip()
        before = Text.assemble(" " * indent, head) if number == 0 else Text(" " * start)
        whole = Text.assemble(before, line)
        whole.rstrip()
        show_whole(whole, console)


def show_whole(line: Text, console: Console) -> None:
    """However long it is, it stays on one line."""
    console.print(line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)
