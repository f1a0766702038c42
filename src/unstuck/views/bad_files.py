"""The files of a check on the terminal: the worst first, and the others in one line."""

from __future__ import annotations

from math import inf

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..model.checked import Data, DataFile
from ..model.data_listed import absent
from ..model.data_loss import Loss, losses
from ..model.evidence import Evidence, Run
from ..model.faults import Bad, bad
from ..model.phrases import many, size
from ..wording.printable import printable

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


def show_files(data: Data, console: Console) -> None:
    """What is lost, where, and why; the others in one line."""
    evidence = Evidence(run=Run("check"), data=data)
    found = _worst_first(data, evidence)
    gone = dict.fromkeys(data.absent, "?") | {one.path: _many(one.samples) for one in absent(evidence)}
    rows = [(lost, path, "is not there") for path, lost in gone.items()]
    rows += [(_lost(loss), one.file.path, _what(one)) for one, loss in found]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("samples lost", justify="right", no_wrap=True)
    table.add_column("file", no_wrap=True)
    table.add_column("what is wrong", overflow="fold")
    for lost, path, what in rows[:MOST]:
        table.add_row(lost, Text(_short(path, console.width * 3 // 8)), Text(what))
    if rows:
        console.print(Padding(table, (0, 0, 0, 2), expand=False))
    rest = [f"and {many(len(rows) - MOST, 'more file')}"] if len(rows) > MOST else []
    told = {one.file.path for one, _ in found}
    rest += _sum([one for one in data.files if one.path not in told], data, "other file" if rows else "file")
    console.print(Padding(Text("\n".join(rest), style="dim"), (0, 0, 1, 2), expand=False))


def _worst_first(data: Data, evidence: Evidence) -> list[tuple[Bad, Loss | None]]:
    """By what is lost. Where that is not known, a file of which nothing can be had comes first."""
    found = bad(evidence, *{kind for one in data.files for kind in one.counts})
    rows = zip(found, losses(evidence, found), strict=True)
    return sorted(rows, key=lambda row: -(row[1].lost if row[1] is not None else 0 if row[0].file.samples else inf))


def _lost(loss: Loss | None) -> str:
    if loss is None:
        return "?"
    about = "~" if loss.about else ""
    return f"{about}{loss.lost:,} of {loss.of:,}" if loss.of > loss.lost else f"all {about}{loss.lost:,}"


def _many(samples: int | None) -> str:
    return "?" if samples is None else f"all {samples:,}"


def _what(one: Bad) -> str:
    """What its first fault is, where it is, and how many more it has."""
    fault = one.first
    where = [WORDS.get(fault.kind, fault.kind)]
    if fault.row is not None:
        where.append(f"{'line' if one.file.format == 'jsonl' else 'row'} {fault.row:,}")
    elif fault.sample or fault.member:
        where.append(fault.member or fault.sample)
    elif fault.at is not None:
        where.append(f"byte {fault.at:,}")
    return ", ".join(where) + (f"; {many(one.total - 1, 'more place')}" if one.total > 1 else "")


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
