"""The console that everything for a person goes through: what others have named cannot speak to the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any, Literal

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ..report import Report
from ..wording.printable import printable, printable_lines
from ..wording.texts import every_text

# For a terminal that has no more than ASCII: what it cannot show would be a number.
IN_ASCII = str.maketrans(
    {
        "✗": "x", "✓": "+", "⚠": "!", "·": "-", "…": "...", "—": "-", "─": "-", "→": "->", "←": "<-", "◂": "<",
        "◀": "<", "×": "x", "µ": "u", "“": '"', "”": '"', "█": "#", "░": ".", "±": "+-", "≤": "<=", "≥": ">=",
    }
)  # fmt: skip


class PrintableConsole(Console):
    """Rich's own escape codes pass, those inside of a text do not. Texts are made printable before; this is the net."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        narrow = not self.encoding.lower().startswith("utf")
        for segment in super().render(renderable, options):
            text = segment.text
            if narrow and not segment.control and not text.isascii():
                text = text.translate(IN_ASCII)
                segment = Segment(text, segment.style)  # noqa: PLW2901
            if segment.control or text == "\n" or (text.isascii() and text.isprintable()):
                yield segment
            else:
                yield Segment(printable_lines(text), segment.style)


def console_for(stream: IO[str] | Any, width: int | None = None, *, plain: bool = False) -> Console:
    """A console that writes plain text where the stream is no terminal, however narrow the caller's world is."""
    colours: Literal["auto"] | None = None if plain else "auto"
    console = PrintableConsole(file=stream, highlight=False, emoji=False, width=width, color_system=colours)
    if console.is_terminal or width:
        return console
    return PrintableConsole(file=stream, highlight=False, emoji=False, width=120)


def printable_report(report: Report) -> Report:
    """Every name and text in it on one line. The evidence is not shown, and a traceback keeps its lines."""
    plain = every_text(msgspec.structs.replace(report, evidence=None, trial=None, data=None), printable)
    trial = every_text(report.trial, printable_lines)
    return msgspec.structs.replace(plain, evidence=report.evidence, trial=trial, data=report.data)
