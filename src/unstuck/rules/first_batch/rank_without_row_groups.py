"""A rank opens the parquet files endlessly and reads no row: there are fewer row groups than ranks.

## It means

Row groups are split by rank: rank r of W takes r, r + W, r + 2 W … of each file. If no file has more row groups than r,
that rank takes none, goes on to the next file, and starts over, forever. It computes and reads footers all the time,
which looks like work. The other ranks wait for it in their first collective.

## Fix

Write the files with at least as many row groups as there are ranks (times workers, if workers split them, too):

```python
pq.write_table(table, "shard_00000.parquet")  # before: one row group, up to 1,048,576 rows
pq.write_table(table, "shard_00000.parquet", row_group_size=len(table) // (ranks * workers))  # after
```

Or split rows instead, which works with any number of row groups:

```python
for number, row in enumerate(rows(path)):
    if number % world_size == rank:
        yield row
```

And fail when an epoch over all files yields nothing:

```python
if not yielded:
    raise RuntimeError(f"rank {rank}: no row group in any of {len(paths)} files")
```

## Check it yourself

```python
import glob
import pyarrow.parquet as pq

for path in sorted(glob.glob("data/*.parquet")):
    print(path, pq.ParquetFile(path).num_row_groups, "row groups")
```

## Not this, if

- all ranks hang, and no file is opened: [nanochat-empty-split-spin](nanochat-empty-split-spin.md)
- rows are read, but all texts are blank: [all-documents-blank](all-documents-blank.md)
- rows come, but too few on one rank: [uneven-file-assignment](uneven-file-assignment.md)
- a rank waits for its own data for another reason: [silent-rank-data-stall](silent-rank-data-stall.md)
- it is webdataset, with fewer shards than ranks: [wds-empty-rank-hang](wds-empty-rank-hang.md)

## How sure

It is judged from how often a process opened which parquet files, how many row groups each has, that it read no row and
got no batch, and from its rank and worker number. It is certain that files were opened over and over and no row was
read. That row groups are split by rank is concluded from their number; where there would be enough of them, it says
only what is seen. Before a run, `unstuck check --ranks` compares the row groups of every file with the number of ranks.
That concerns a loader that splits by row group: one that splits files or rows has no such problem.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.case import Case
from ...analysis.first_batch import gave_batches
from ...analysis.shards import FewGroups, few_groups
from ...evidence.finding import Certainty, Finding, Remedy, Subject, Symptom
from ...evidence.process import Process
from ...wording.printable import printable
from ...wording.text import many, who
from ..rule import Level, rule
from ._naming import subject_of

ROUNDS = 20  # times each file was opened, on average: far more than anything that only needs the footers
OPENED = 100  # files in all
SHOWN = 4  # files

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
    files = many(len(process.data_files), "file")
    why = f"it opened its files {opened:,} times and read no row"
    told = f"{who(process)} opened {files} {opened:,} times: 0 row groups read, 0 rows, no batch so far"
    if known and number is not None and most <= number:
        why = f"files have at most {many(most, 'row group')}, it starts at the {_ordinal(number + 1)}"
        told += f"; it is the {_ordinal(number + 1)} of {of} readers"
    remedy, *alternatives = _options(process, most, of)
    return case.finding(
        process,
        cause=f"{subject_of(process)} gets no data: {why}.",
        seen=[
            told,
            *(
                f"{file.path}: {many(file.groups, 'row group')}, {many(file.rows or 0, 'row')}"
                for file in process.data_files[:SHOWN]
                if file.groups is not None
            ),
        ],
        remedy=remedy,
        alternatives=alternatives,
        onset_s=opening.at,
        where=opening.where,
        subject=Subject("file", process.data_files[0].path),
    )


def _ahead(case: Case, few: FewGroups) -> Finding:
    """Nothing runs yet."""
    first, rows = max(few.files, key=lambda one: one.row_groups or 0), max(one.samples or 0 for one in few.files)
    idle = f"rank {few.most}" if few.most == few.ranks - 1 else f"ranks {few.most} to {few.ranks - 1}"
    gets = f"{idle} gets nothing" if few.most == few.ranks - 1 else f"{idle} get nothing"
    return case.finding(
        cause=f"Files have at most {many(few.most, 'row group')} for {few.ranks} ranks: split by row group, {gets}.",
        seen=[
            f"a loader that splits by row group loops endlessly on {idle}, and the others wait for it",
            *(
                f"{printable(file.path)}: {many(file.row_groups or 0, 'row group')}, {many(file.samples or 0, 'row')}"
                for file in few.files[:SHOWN]
            ),
        ],
        remedy=_smaller(few.ranks, printable(first.path.rpartition("/")[2]), rows),
        alternatives=[SPLIT_ROWS, FAIL_EARLY],
        subject=Subject("file", first.path),
        symptom=Symptom.BAD_DATA.value,
    )


def _ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 11th."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _share(process: Process) -> tuple[int | None, int]:
    """Which of how many readers it is: ranks, times their workers."""
    rank, world = process.rank, process.world or 1
    if process.worker is None:
        return rank, world
    workers = process.workers or 1
    return (rank or 0) * workers + process.worker, world * workers


def _options(process: Process, most: int, of: int) -> list[Remedy]:
    largest = max((file.rows or 0 for file in process.data_files), default=0)
    if most < of:
        return [_smaller(of, process.data_files[0].path.rpartition("/")[2], largest), SPLIT_ROWS, FAIL_EARLY]
    return [
        Remedy("Fix how this process selects its row groups: it finds none, although there are enough"),
        FAIL_EARLY,
    ]


def _smaller(of: int, name: str, rows: int) -> Remedy:
    size = max(rows // max(of, 1), 1)
    return Remedy(
        f"Write the files with at least {many(of, 'row group')} each",
        code=[f"pq.write_table(table, {name!r}, row_group_size={size})  # or fewer rows"],
    )


SPLIT_ROWS = Remedy(
    "Split rows between ranks instead of row groups",
    code=["if number % world_size == rank:  # number: of the row, in its file"],
)
FAIL_EARLY = Remedy(
    "Raise an error when an epoch over all files yields no row",
    code=["if not yielded:", '    raise RuntimeError("no row group for this rank")'],
)
