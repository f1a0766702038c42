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

from ..evidence.data import Data, DataFile, Speed
from ..report import BadFile, Report
from ..wording.language import word
from ..wording.printable import printable
from ..wording.text import duration, many, percent, size
from .block import headline
from .console import console_for
from .terminal import show

FEW = 3  # reasons for which files were not read
ENOUGH = 1 << 20  # bytes: over fewer, a rate says nothing
DECODABLE = ("tar", "image")  # formats whose samples are looked into with --decode only
MOST_FILES = 20  # rows
WORDS = {
    "empty": "has no bytes at all",
    "foreign": "holds something else",
    "unreadable": "cannot be read",
    "reader-died": "ends whatever reads it",
    "hostile": "could do harm",
    "cut": "is truncated",
    "damaged": "is damaged",
    "no-rows": "holds nothing",
    "zeros": "holds zeros instead of data",
    "undecodable": "cannot be decoded",
    "image": "an image cannot be decoded",
    "manifest": "does not match the manifest",
    "tar-cut-data": "is truncated inside a member",
    "tar-cut-header": "is truncated inside a header",
    "tar-no-end": "has no end mark",
    "tar-early-end": "is read as if it ended early",
    "tar-bad-header": "has a damaged header",
    "tar-apart": "files of a sample are not adjacent",
    "tar-duplicate": "contains a key twice",
}


def show_check(report: Report, console: Console, *, verbose: bool = False) -> None:
    data = report.data
    if data is None:
        show(report, console, verbose=verbose)
        return
    if report.findings:
        show_files(report, data, console)
        show(report, console, verbose=verbose)
    else:
        _show_line(report, data, console)
    _show_rest(data, console, told=not report.findings)


def show_files(report: Report, data: Data, console: Console) -> None:
    """What is lost, where, and why; the others in one line."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(word("samples lost"), justify="right", no_wrap=True)
    table.add_column(word("file"), no_wrap=True)
    table.add_column(word("what is wrong"), overflow="fold")
    for file in report.bad_files[:MOST_FILES]:
        table.add_row(_lost(file), Text(_short(file.path, console.width * 3 // 8)), Text(_what(file)))
    count = len(report.bad_files)
    if count:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
    rest = [word(f"and {many(count - MOST_FILES, 'more file')}")] if count > MOST_FILES else []
    told = {file.path for file in report.bad_files if file.first is not None}
    rest += _sum([file for file in data.files if file.path not in told], data, "other file" if count else "file")
    console.print(Padding(Text("\n".join(rest), style="dim"), (0, 0, 1, 2), expand=False))


def _show_line(report: Report, data: Data, console: Console) -> None:
    """Nothing was found: that deserves one line."""
    console.print(Text.assemble(headline(report.state), f"  {_all(data)}"), soft_wrap=True)
    for note in report.notes:
        console.print(Padding(Text(note, style="yellow"), (0, 0, 0, 2)))


def _all(data: Data) -> str:
    """128 files, 1,280,000 samples, 64 GiB read in 2 min 3 s (530 MiB/s cold)."""
    known = [one for one in data.files if not one.unread and not one.other]
    alone = sum(one.files for one in data.folders)
    read = sum(one.read for one in known) + sum(one.size for one in data.folders)
    kinds = [one.kind for one in data.speeds]
    kind = f" {word(kinds[0])}" if kinds in (["cold"], ["warm"]) else ""
    rate = f" ({size(read / data.seconds)}/s{kind})" if data.seconds and read >= ENOUGH else ""
    parts = [word(many(len(known) + alone, "file")), *_samples(known, data)]
    return f"{', '.join(parts)}, {word(f'{size(read)} read in {duration(data.seconds)}')}{rate}"


def _show_rest(data: Data, console: Console, *, told: bool) -> None:
    """How much was read and how fast it came, unless that was told; and what nobody has looked at."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    before = ""
    for name, text in (*([] if told else [("checked", _all(data))]), *_reading(data, told=told), *_unlooked(data)):
        table.add_row(word(name) if name != before else "", Text(text, style="dim"))
        before = name
    if table.row_count:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _reading(data: Data, *, told: bool) -> Iterator[tuple[str, str]]:
    """Storage and memory are told apart: what was in memory says nothing of the disk."""
    if len(data.speeds) > told:
        yield "reading", f"{', '.join(map(_speed, data.speeds))}, {word('to each reader')}"


def _speed(one: Speed) -> str:
    rate = f"{size(one.read / one.seconds)}/s" if one.seconds else word("too fast to tell")
    return f"{word(one.kind)} {rate} ({word(many(one.files, 'file'))})"


def _unlooked(data: Data) -> Iterator[tuple[str, str]]:
    if data.stopped:
        yield "stopped", f"{word(data.stopped)}: {word('what was not read before is unknown; --resume continues')}"
    yield from (("not read", text) for text in _by_reason([(one.unread, one.path) for one in data.files if one.unread]))
    yield from (("no data", text) for text in _by_reason([(one.other, one.path) for one in data.files if one.other]))
    if data.asked.sample is not None:
        yield "unknown", _sampled(data, data.asked.sample)
    formats = {one.format for one in data.files} | {one.format for one in data.folders}
    if not data.asked.decode and not formats.isdisjoint(DECODABLE):
        yield "not decoded", word("images, JSON and arrays in samples; --decode decodes them")


def _sampled(data: Data, share: float) -> str:
    """Files of one sample each are only counted, by folder."""
    known = [one for one in data.files if one.format and not one.unread]
    whole = sum(one.whole for one in known)
    if data.folders:
        return word(f"--sample {percent(share)} read that part of the files completely: the others are unknown")
    ends = f"only the ends of {len(known) - whole:,}: what is between is unknown"
    return word(f"--sample {percent(share)} read {many(whole, 'file')} completely, and {ends}")


def _by_reason(found: list[tuple[str, str]]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for reason, path in found:
        reasons.setdefault(reason, []).append(path)
    for reason, paths in list(reasons.items())[:FEW]:
        first = (
            printable(paths[0])
            if len(paths) == 1
            else word(f"{many(len(paths), 'file')}, such as {printable(paths[0])}")
        )
        yield f"{first}: {printable(reason)}"
    if len(reasons) > FEW:
        left = sum(len(paths) for paths in list(reasons.values())[FEW:])
        yield word(f"{many(left, 'more file')}, for {many(len(reasons) - FEW, 'other reason')}")


def _lost(file: BadFile) -> str:
    if file.lost is None or file.of is None:
        return "?"
    about = "~" if file.about else ""
    return (
        f"{about}{file.lost:,} {word('of')} {file.of:,}"
        if file.of > file.lost
        else f"{word('all')} {about}{file.lost:,}"
    )


def _what(file: BadFile) -> str:
    """What its first fault is, where it is, and how many more it has."""
    fault = file.first
    if fault is None:
        return word("is missing")
    where = [word(WORDS.get(fault.kind, fault.kind))]
    if fault.row is not None:
        where.append(word(f"{'line' if file.format == 'jsonl' else 'row'} {fault.row:,}"))
    elif fault.sample or fault.member:
        where.append(fault.member or fault.sample)
    elif fault.at is not None:
        where.append(word(f"byte {fault.at:,}"))
    return ", ".join(where) + (f"; {word(many(file.more, 'more place'))}" if file.more > 0 else "")


def _short(path: str, width: int) -> str:
    """From the left: the end tells files apart."""
    name = printable(path)
    return name if len(name) <= width else f"…{name[1 - width :]}"


def _sum(files: list[DataFile], data: Data, noun: str) -> list[str]:
    """125 other files without a fault of their own: 1,250,000 _samples, 62 GiB, tar."""
    known = [one for one in files if one.format and not one.unread]
    count = len(known) + sum(one.files for one in data.folders)
    bytes_ = sum(one.size for one in known) + sum(one.size for one in data.folders)
    formats = sorted({one.format for one in known} | {one.format for one in data.folders})
    parts = [*_samples(known, data), size(bytes_), *formats]
    return [f"{word(f'{many(count, noun)} without a fault of their own')}: {', '.join(parts)}"] if count else []


def _samples(files: list[DataFile], data: Data) -> list[str]:
    """As far as they were counted: of files that were not read whole, nobody knows."""
    count = sum(one.samples or 0 for one in files) + sum(one.files for one in data.folders)
    return [word(many(count, "sample"))] if count and all(one.whole for one in files) else []


if __name__ == "__main__":
    show_check(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Report), console_for(sys.stdout))
