"""How findings about data files are worded: which file, how many more, where in them, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..evidence.data import DataFile, Fault
from ..evidence.finding import Finding, Remedy, Symptom
from ..wording.printable import printable, quoted
from ..wording.text import many, said, size
from .case import Case
from .data_files import Bad, base, concerned, folder_of, raised_over
from .side_work import NO_ROOM, half_written

LINES = 4  # of what was seen: a finding is read, a list is written by --quarantine
EACH = 2  # places of one file, where there are several files
LIST = "bad-samples.txt"


def named(files: list[DataFile], noun: str = "file") -> str:
    """shard-000017.tar; shard-000017.tar and another file; shard-000017.tar and 3 other files."""
    more = len(files) - 1
    others = f"{more:,} other {noun}s" if more > 1 else f"another {noun}"
    return base(files[0].path) + (f" and {others}" if more else "")


def places(found: list[Bad]) -> list[str]:
    """Where in which file, the worst file first, and what is left out here."""
    most = LINES if len(found) == 1 else EACH
    kept = [(bad, fault) for bad in found for fault in bad.faults[:most]][:LINES]
    lines = [f"{printable(bad.file.path)}: {place(fault)}" for bad, fault in kept]
    return [*lines, *_rest(found, kept)]


def _rest(found: list[Bad], kept: list[tuple[Bad, Fault]]) -> Iterator[str]:
    told = {bad.file.path for bad, _ in kept}
    more = sum(bad.total for bad in found if bad.file.path in told) - len(kept)
    if more > 0:
        yield f"and {many(more, 'more place')} like {'these' if len(kept) > 1 else 'this'} in {_these(len(told))}"
    others = [base(bad.file.path) for bad in found if bad.file.path not in told]
    if others:
        names = ", ".join(others[:4]) + (", …" if len(others) > 4 else "")
        yield f"the same in {many(len(others), 'more file')}: {names}"


def _these(files: int) -> str:
    return "it" if files == 1 else "them"


def place(fault: Fault) -> str:
    """byte 26,624: the file ends inside 000026.jpg."""
    if fault.at is not None and not any(text in fault.what for text in (f"byte {fault.at:,}", f"{fault.at:,} bytes")):
        return f"byte {fault.at:,}: {fault.what}"
    return fault.what


def about(file: DataFile) -> str:
    """Its size, and what it holds."""
    parts = [size(file.size)]
    parts += [many(file.samples, "sample")] if file.samples is not None else []
    return ", ".join(parts)


def finding(
    case: Case,
    found: list[Bad],
    cause: str,
    remedy: Remedy,
    symptom: str = "",
    alternatives: Sequence[Remedy] = (),
    more: Sequence[str] = (),
) -> Finding:
    """Files that were checked have ended no run. Of a run that went on, or ended otherwise, they made wrong data.

    `more`: evidence beside the places in the files.
    """
    of_run = case.data is not None and case.data.of_run
    went_on = of_run and concerned(case) is None
    paths = {one.file.path for one in found}
    failure = raised_over(case, paths) if of_run else None
    return Finding(
        cause=cause,
        seen=[*places(found), *more],
        remedy=remedy,
        alternatives=list(alternatives),
        saw=printable(said(failure)) if failure is not None else "",
        subject=found[0].subject,
        symptom=(Symptom.WRONG.value if went_on else symptom) if of_run else Symptom.BAD_DATA.value,
        because_of=NO_ROOM if of_run and paths <= half_written(case) else None,
    )


def once_more(case: Case, file: DataFile) -> list[str]:
    """The command that checks this file; of a run, all of its folder, which was not checked."""
    data = case.data
    if data is None or (data.asked.paths == [file.path] and not data.of_run):
        return []
    return [f"unstuck check {quoted(folder_of(file.path) or '.' if data.of_run else file.path)}{_decode(case)}"]


def listed_out(case: Case) -> list[str]:
    """The command that writes what to leave out."""
    return [f"{the_same(case)} --quarantine {LIST}"] if case.data is not None and not case.data.of_run else []


def the_same(case: Case) -> str:
    """The check as it was asked for."""
    asked = case.data.asked.paths if case.data is not None else []
    return f"unstuck check {' '.join(quoted(one) for one in asked)}{_decode(case)}"


def _decode(case: Case) -> str:
    return " --decode" if case.data is not None and case.data.asked.decode else ""


def fetch(case: Case, found: list[Bad]) -> Remedy:
    """For a file of which a good copy is needed as a whole."""
    files = [one.file for one in found]
    what = (
        "the rest of its folder" if case.data is not None and case.data.of_run else "it" if len(files) == 1 else "them"
    )
    text = f"Fetch {listing(files)} again, or write {'it' if len(files) == 1 else 'them'} again from the source"
    return Remedy(f"{text}. Then check {what}.", once_more(case, files[0]))


def skipped(case: Case) -> list[Remedy]:
    """Until the data is good: training without what is bad in it."""
    commands = listed_out(case)
    text = "Train without the bad samples until then: this lists them, and prints a filter for the loader."
    return [Remedy(text, commands)] if commands else []


def listing(files: list[DataFile]) -> str:
    """Paths of the first few, and how many more."""
    few = ", ".join(printable(one.path) for one in files[:2])
    return few if len(files) <= 2 else f"{few} and {many(len(files) - 2, 'more file')}"
