"""A rank opens the data files again and again and never reads a row: no row group of theirs falls to it.

## What it looks at
How often a process has opened which parquet files, how many row groups each has, how many rows it has read (none) and
how many batches came of it (none); its rank and, in a DataLoader, its worker number. Before a run, `unstuck check
--ranks`: the row groups of every file against the number of ranks.

## Why it happens
Row groups are dealt out by rank: rank r of W takes r, r + W, r + 2 W … of each file. If every file has no more row
groups than r, that rank takes none, goes on to the next file, and begins again, for ever. It computes and reads footers
all the time, which looks like work. The other ranks wait for it in their first collective.

## What to do
Write the files with smaller row groups, at least as many as there are ranks (times workers), or deal out rows or files
instead. Let the loader fail when a pass over all files brought nothing.

## How sure it is
Certain that files were opened over and over and no row was read. That the deal is by rank is concluded from the number
of row groups; where they would suffice, it says only what is seen. Before a run it is certain of the row groups, and
speaks of a loader that deals these out: one that deals out files or rows has no such problem.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.first_batch import gave_batches
from ...analysis.shards import FewGroups, few_groups
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.printable import printable
from ...wording.text import many, short, who
from ..rule import Level, rule

ROUNDS = 20  # times each file was opened, on average: nobody looks at footers so often for their own sake
OPENED = 100  # files in all

OUTRANKED = (
    "silent-rank-data-stall",
    "workers-without-shards",
    "straggler-rank",
    "stuck-in-user-code",
    "worker-infinite-loop",
    "collective-timeout",
    "rank-crash-cascade",
    "dataloader-bound",
    "dataloader-timeout",
    "uncaught-exception",
    "main-killed",
)


@rule(
    explains=Symptom.STUCK,
    certainty=Certainty.LIKELY,
    needs=("recording|data",),
    level=Level.CAUSE,
    outranks=("workers-without-shards",),
)
def check(case: Case) -> Iterator[Finding]:
    few = few_groups(case)
    if few is not None:
        yield _ahead(case, few)
    for process in case.recording or ():
        opened = sum(one.files for one in process.sources)
        if opened < max(OPENED, ROUNDS * len(process.data_files)) or not process.data_files or _has_read(process):
            continue
        if process.ended is not None and case.run.status == 0:
            continue
        yield _found(case, process, opened)


def _has_read(process: Process) -> bool:
    read = any(one.items or one.groups or one.made for one in process.sources)
    return read or gave_batches(process) or process.optimizer_steps > 0


def _found(case: Case, process: Process, opened: int) -> Finding:
    opening = next(one for one in process.sources if one.files)
    known = [one.groups for one in process.data_files if one.groups is not None]
    most = max(known, default=0)
    number, of = _share(process)
    name = who(process)[:1].upper() + who(process)[1:]
    files = many(len(process.data_files), "file")
    dealt = ""
    if known and number is not None and most <= number:
        dealt = f" The largest has {many(most, 'row group')}, and number {number} of {of} begins at row group {number}."
    return case.finding(
        process,
        cause=f"{name} has opened {files} {opened:,} times at {short(opening.where)} and read no row: no row group "
        f"falls to it, so that it goes round without an end and gives no batch.{dealt}",
        seen=[
            f"{files} opened {opened:,} times, 0 row groups read, 0 rows, no batch so far",
            *(
                f"{one.path}: {many(one.groups, 'row group')}, {many(one.rows or 0, 'row')}"
                for one in process.data_files[:4]
                if one.groups is not None
            ),
        ],
        remedy=_remedy(process, most, of),
        onset_s=opening.at,
        where=opening.where,
        subject=Subject("file", process.data_files[0].path),
    )


def _ahead(case: Case, few: FewGroups) -> Finding:
    """Nothing runs yet."""
    first, rows = max(few.files, key=lambda one: one.row_groups or 0), max(one.samples or 0 for one in few.files)
    idle = f"rank {few.most}" if few.most == few.ranks - 1 else f"ranks {few.most} to {few.ranks - 1}"
    return case.finding(
        cause=f"No file has more than {many(few.most, 'row group')}, for {few.ranks} ranks: a loader that deals row "
        f"groups out by rank gives {idle} nothing, who then go round without an end while the others wait.",
        seen=[
            f"{printable(one.path)}: {many(one.row_groups or 0, 'row group')}, {many(one.samples or 0, 'row')}"
            for one in few.files[:4]
        ],
        remedy=Remedy(_smaller(few.ranks, printable(first.path.rpartition("/")[2]), rows)),
        subject=Subject("file", first.path),
    )


def _share(process: Process) -> tuple[int | None, int]:
    """Which of how many readers it is: ranks, and their workers where there are some."""
    rank, world = process.rank, process.world or 1
    if process.worker is None:
        return rank, world
    workers = process.workers or 1
    return (rank or 0) * workers + process.worker, world * workers


def _remedy(process: Process, most: int, of: int) -> Remedy:
    largest = max((one.rows or 0 for one in process.data_files), default=0)
    if most < of:
        return Remedy(_smaller(of, process.data_files[0].path.rpartition("/")[2], largest))
    return Remedy(
        "Look at which row groups this process selects: none of those there are. Raise an error when a pass over "
        "all files brought no row."
    )


def _smaller(of: int, name: str, rows: int) -> str:
    return (
        f'Write the files with at least {many(of, "row group")} each, `pq.write_table(table, "{name}", '
        f"row_group_size={max(rows // max(of, 1), 1)})` or fewer rows, or deal out rows or files instead of row "
        "groups. And raise an error when a pass over all files brought no row."
    )
