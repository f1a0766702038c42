"""A check of data on the terminal: files worst first, findings, what was not looked at.

Alone: `python -m unstuck.views.checks report.json`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..evidence.data import Data, Speed
from ..report import Report
from ..wording.printable import printable
from ..wording.text import duration, many, percent, size
from .bad_files import samples, show_files
from .console import console_for
from .reading import Reading
from .terminal import COLOURS, show

__all__ = ["Reading", "show_check"]
FEW = 3  # reasons for which files were not read
ENOUGH = 1 << 20  # bytes: over fewer, a rate says nothing
DECODABLE = ("tar", "image")  # formats whose samples are looked into with --decode only


def show_check(report: Report, console: Console) -> None:
    data = report.data
    if data is None:
        show(report, console)
        return
    if report.findings:
        show_files(report, data, console)
        show(report, console)
    else:
        _show_line(report, data, console)
    _show_rest(data, console, told=not report.findings)


def _show_line(report: Report, data: Data, console: Console) -> None:
    """Nothing was found: that deserves one line."""
    colour = COLOURS.get(report.state, "cyan")
    line = Text.assemble(("unstuck", "bold"), " · ", (report.state, f"bold {colour}"), f" · {_all(data)}")
    console.print(line, soft_wrap=True)
    for note in report.notes:
        console.print(Padding(Text(note, style="yellow"), (0, 0, 0, 2)))


def _all(data: Data) -> str:
    """128 files, 1,280,000 samples, 64 GiB read in 2 min 3 s (530 MiB/s cold)."""
    known = [one for one in data.files if not one.unread and not one.other]
    alone = sum(one.files for one in data.folders)
    read = sum(one.read for one in known) + sum(one.size for one in data.folders)
    kinds = [one.kind for one in data.speeds]
    kind = f" {kinds[0]}" if kinds in (["cold"], ["warm"]) else ""
    rate = f" ({size(read / data.seconds)}/s{kind})" if data.seconds and read >= ENOUGH else ""
    parts = [many(len(known) + alone, "file"), *samples(known, data)]
    return f"{', '.join(parts)}, {size(read)} read in {duration(data.seconds)}{rate}"


def _show_rest(data: Data, console: Console, *, told: bool) -> None:
    """How much was read and how fast it came, unless that was told; and what nobody has looked at."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    before = ""
    for name, text in (*([] if told else [("checked", _all(data))]), *_reading(data, told=told), *_unlooked(data)):
        table.add_row(name if name != before else "", Text(text, style="dim"))
        before = name
    if table.row_count:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _reading(data: Data, *, told: bool) -> Iterator[tuple[str, str]]:
    """Storage and memory are told apart: what was in memory says nothing of the disk."""
    if len(data.speeds) > told:
        yield "reading", f"{', '.join(map(_speed, data.speeds))}, to each reader"


def _speed(one: Speed) -> str:
    rate = f"{size(one.read / one.seconds)}/s" if one.seconds else "too fast to tell"
    return f"{one.kind} {rate} ({many(one.files, 'file')})"


def _unlooked(data: Data) -> Iterator[tuple[str, str]]:
    if data.stopped:
        yield "stopped", f"{data.stopped}: what was not read until then is unknown; --resume goes on"
    yield from (("not read", text) for text in _by_reason([(one.unread, one.path) for one in data.files if one.unread]))
    yield from (("no data", text) for text in _by_reason([(one.other, one.path) for one in data.files if one.other]))
    if data.asked.sample is not None:
        yield "unknown", _sampled(data, data.asked.sample)
    formats = {one.format for one in data.files} | {one.format for one in data.folders}
    if not data.asked.decode and not formats.isdisjoint(DECODABLE):
        yield "not decoded", "images, JSON and arrays in samples: --decode does"


def _sampled(data: Data, share: float) -> str:
    """Files of one sample each are only counted, by folder."""
    known = [one for one in data.files if one.format and not one.unread]
    whole = sum(one.whole for one in known)
    if data.folders:
        return f"--sample {percent(share)} read that part of the files whole: what is in the others is unknown"
    ends = f"only the ends of {len(known) - whole:,}: what is between is unknown"
    return f"--sample {percent(share)} read {many(whole, 'file')} whole, and {ends}"


def _by_reason(found: list[tuple[str, str]]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for reason, path in found:
        reasons.setdefault(reason, []).append(path)
    for reason, paths in list(reasons.items())[:FEW]:
        first = printable(paths[0]) if len(paths) == 1 else f"{many(len(paths), 'file')}, such as {printable(paths[0])}"
        yield f"{first}: {printable(reason)}"
    if len(reasons) > FEW:
        left = sum(len(paths) for paths in list(reasons.values())[FEW:])
        yield f"{many(left, 'more file')}, for {many(len(reasons) - FEW, 'other reason')}"


if __name__ == "__main__":
    show_check(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Report), console_for(sys.stdout))
