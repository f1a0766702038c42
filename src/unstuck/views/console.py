"""The console that everything for a person goes through: what others have named cannot speak to the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ..report import Report
from ..wording.printable import printable, printable_lines
from ..wording.texts import every_text


class PrintableConsole(Console):
    """Rich's own escape codes pass, those inside of a text do not. Texts are made printable before; this is the net."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text == "\n" or (text.isascii() and text.isprintable()):
                yield segment
            else:
                yield Segment(printable_lines(text), segment.style)


def console_for(stream: IO[str] | Any, width: int | None = None) -> Console:
    """A console that writes plain text where the stream is no terminal, however narrow the caller's world is."""
    console = PrintableConsole(file=stream, highlight=False, markup=True, emoji=False, width=width)
    if console.is_terminal or width:
        return console
    return PrintableConsole(file=stream, highlight=False, emoji=False, width=120)


def printable_report(report: Report) -> Report:
    """Every name and text in it on one line. The evidence is not shown, and a traceback keeps its lines."""
    plain = every_text(msgspec.structs.replace(report, evidence=None, trial=None, data=None), printable)
    trial = every_text(report.trial, printable_lines)
    return msgspec.structs.replace(plain, evidence=report.evidence, trial=trial, data=report.data)
