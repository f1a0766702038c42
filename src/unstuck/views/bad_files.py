"""The files of a check on the terminal: the worst first, and the others in one line."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..evidence.data import Data, DataFile
from ..report import BadFile, Report
from ..wording.printable import printable
from ..wording.text import many, size

MOST = 20  # rows
WORDS = {
    "empty": "has no bytes at all",
    "foreign": "something else stands in its place",
    "unreadable": "cannot be read on",
    "reader-died": "ends whatever reads it",
    "hostile": "could do harm",
    "cut": "is cut off",
    "damaged": "is damaged",
    "no-rows": "holds nothing",
    "zeros": "zeros in place of data",
    "undecodable": "cannot be decoded",
    "image": "an image cannot be decoded",
    "manifest": "is not what the manifest has",
    "tar-cut-data": "is cut off in a member",
    "tar-cut-header": "is cut off in a header",
    "tar-no-end": "has no end mark",
    "tar-early-end": "seems to end in its middle",
    "tar-bad-header": "has a damaged header",
    "tar-apart": "parts of a sample stand apart",
    "tar-duplicate": "a key stands there twice",
}


def show_files(report: Report, data: Data, console: Console) -> None:
    """What is lost, where, and why; the others in one line."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("samples lost", justify="right", no_wrap=True)
    table.add_column("file", no_wrap=True)
    table.add_column("what is wrong", overflow="fold")
    for file in report.bad_files[:MOST]:
        table.add_row(_lost(file), Text(_short(file.path, console.width * 3 // 8)), Text(_what(file)))
    count = len(report.bad_files)
    if count:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
    rest = [f"and {many(count - MOST, 'more file')}"] if count > MOST else []
    told = {file.path for file in report.bad_files if file.first is not None}
    rest += _sum([file for file in data.files if file.path not in told], data, "other file" if count else "file")
    console.print(Padding(Text("\n".join(rest), style="dim"), (0, 0, 1, 2), expand=False))


def _lost(file: BadFile) -> str:
    if file.lost is None or file.of is None:
        return "?"
    about = "~" if file.about else ""
    return f"{about}{file.lost:,} of {file.of:,}" if file.of > file.lost else f"all {about}{file.lost:,}"


def _what(file: BadFile) -> str:
    """What its first fault is, where it is, and how many more it has."""
    fault = file.first
    if fault is None:
        return "is not there"
    where = [WORDS.get(fault.kind, fault.kind)]
    if fault.row is not None:
        where.append(f"{'line' if file.format == 'jsonl' else 'row'} {fault.row:,}")
    elif fault.sample or fault.member:
        where.append(fault.member or fault.sample)
    elif fault.at is not None:
        where.append(f"byte {fault.at:,}")
    return ", ".join(where) + (f"; {many(file.more, 'more place')}" if file.more > 0 else "")


def _short(path: str, width: int) -> str:
    """From the left: the end tells files apart."""
    name = printable(path)
    return name if len(name) <= width else f"…{name[1 - width :]}"


def _sum(files: list[DataFile], data: Data, noun: str) -> list[str]:
    """125 other files without a fault of their own: 1,250,000 samples, 62 GiB, tar."""
    known = [one for one in files if one.format and not one.unread]
    count = len(known) + sum(one.files for one in data.folders)
    bytes_ = sum(one.size for one in known) + sum(one.size for one in data.folders)
    formats = sorted({one.format for one in known} | {one.format for one in data.folders})
    parts = [*samples(known, data), size(bytes_), *formats]
    return [f"{many(count, noun)} without a fault of their own: {', '.join(parts)}"] if count else []


def samples(files: list[DataFile], data: Data) -> list[str]:
    """As far as they were counted: of files that were not read whole, nobody knows."""
    count = sum(one.samples or 0 for one in files) + sum(one.files for one in data.folders)
    return [many(count, "sample")] if count and all(one.whole for one in files) else []
