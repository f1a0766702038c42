"""Data files that were read: what is wrong with which, what a manifest says of them, and what damage costs."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from statistics import median
from typing import NamedTuple

from ..evidence.data import NO_END, Data, DataFile, Fault, Group, Listed, Manifest
from ..evidence.finding import Subject
from ..evidence.process import Failure, Process
from ..wording.printable import printable
from ..wording.text import many
from .case import Case, once
from .failures import path_of, raised, undecoded

# Names of data files, and which of them belong to one numbered series.
NUMBER = re.compile(r"\d+")
# What is made up for one job or one file: Spark and the Hugging Face Hub put such into their names.
UNIQUE = re.compile(
    r"(?<![0-9a-zA-Z])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{16,64})(?![0-9a-zA-Z])"
)
SHARDS = ("tar", "parquet", "jsonl", "arrow")  # formats of which one file holds many samples


class Series(NamedTuple):
    """Files of one folder whose names differ in numbers only, by these numbers."""

    folder: str
    pattern: str
    files: list[DataFile]


def base(path: str) -> str:
    return printable(path.rpartition("/")[2])


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def pattern_of(path: str) -> str:
    """shard-#.tar."""
    return NUMBER.sub("#", plain(path))


def numbers_of(path: str) -> tuple[int, ...]:
    return tuple(int(one[:18]) for one in NUMBER.findall(plain(path)))


def plain(path: str) -> str:
    """Its last part, without what is made up."""
    return UNIQUE.sub("*", path.rpartition("/")[2])


@once
def all_series(case: Case) -> list[Series]:
    """Those of a check: the files that a run had trouble with are few, and say nothing about each other."""
    found: dict[tuple[str, str], list[DataFile]] = {}
    if case.data is None or case.data.of_run:
        return []
    for file in case.data.files:
        if not file.other:
            found.setdefault((folder_of(file.path), pattern_of(file.path)), []).append(file)
    return [
        Series(folder, pattern, sorted(files, key=lambda one: numbers_of(one.path)))
        for (folder, pattern), files in found.items()
        if "#" in pattern
    ]


# Which data files the exception that ended a run is about.


@once
def concerned(case: Case) -> set[str] | None:
    """None: it did not end by one. What a handler swallowed before is not the reason of one that came later."""
    own = [(one, one.failure) for one in case.mains if one.failure is not None and one.failure.how == "uncaught"]
    own += [(one.process, one.failure) for one in raised(case)]
    if not own:
        return None
    return {path for process, failure in own for path in _in_hand(case, process, failure)}


def raised_over(case: Case, paths: set[str]) -> Failure | None:
    """The exception of a worker over one of these files, as it was raised there."""
    own = (one for one in raised(case) if one.process.role == "worker")
    return next((one.failure for one in own if _in_hand(case, one.process, one.failure) & paths), None)


def _in_hand(case: Case, process: Process, failure: Failure) -> set[str]:
    return {os.path.join(case.run.cwd, one.removeprefix("file:")) for one in _named(process, failure)}


def _named(process: Process, failure: Failure) -> Iterator[str]:
    """In hand when it was raised; or of the shard that it was raised over, or that was being read."""
    yield from failure.paths
    for shards in process.shards:
        yield from (one.path for one in shards.errors if not one.handler or one.path in failure.message)
        yield shards.now


# Questions about data files that were read: which have what wrong with them.
# Who explains whom, where one file has several: a download that was cut off also ends in the middle of a line.
ORDER = (
    ("reader-died", "unreadable", "foreign", "empty", "no-rows", "hostile"),
    ("cut", "damaged"),
    ("tar-bad-header", "tar-early-end", "tar-cut-header", "tar-cut-data", "tar-no-end"),
    ("zeros",),
    ("image", "undecodable"),
    ("tar-apart", "tar-duplicate"),
    ("manifest",),
)
RANKS = {kind: rank for rank, kinds in enumerate(ORDER) for kind in kinds}
# What ends a file, or makes what follows doubtful: faults behind that place come of it.
ENDS = {kind for kinds in ORDER[:3] for kind in kinds} - {"hostile"}
# What may change how many samples a file has, or its size.
COUNTS = ENDS | {"hostile", "zeros", "undecodable", "tar-apart", "tar-duplicate"}
# What a decoder's own exception is about, where it names the file: then that finding quotes these.
OF_CONTENT = {"empty", "foreign", "cut", "damaged", "zeros", "image", "undecodable"}
HABIT = 0.5  # of the other archives of its folder: then their writer does not mark the end of an archive


class Bad(NamedTuple):
    """A file with faults of the kinds that were asked for, the first first."""

    file: DataFile
    faults: list[Fault]
    total: int  # of all of them; no more than some are kept

    @property
    def first(self) -> Fault:
        return self.faults[0]

    @property
    def subject(self) -> Subject:
        return Subject("file", self.file.path)

    @property
    def lost(self) -> int | None:
        """Samples, as far as each fault says; those of which nothing was kept lose as many as the others."""
        known = [one.lost for one in self.faults if one.lost is not None]
        return sum(known) * self.total // len(self.faults) if known else None


def bad(case: Case, *kinds: str) -> list[Bad]:
    """Files that have faults of these kinds which no other fault of the same file explains, the worst first."""
    found, habits, told = [], _habits(case), _told_by_decoders(case)
    for file in _files(case):
        own = [one for one in file.faults if one.kind in kinds and not (file.path in told and one.kind in OF_CONTENT)]
        left = [one for one in own if not _explained(one, file) and not _is_habit(one, file, habits, case)]
        if left:
            total = sum(file.counts.get(kind, 0) for kind in kinds) - len(own) + len(left)
            found.append(Bad(file, left, max(total, len(left))))
    return sorted(found, key=lambda one: (-(one.lost or 0), -one.total, one.file.path))


@once
def _files(case: Case) -> list[DataFile]:
    """Of a run that ended by an exception, only those that it is about."""
    data = case.data
    about = concerned(case) if data is not None and data.of_run else None
    return [one for one in (data.files if data is not None else ()) if about is None or one.path in about]


@once
def incomplete(case: Case) -> set[str]:
    """Files with faults that explain whatever else is odd about them: fewer samples, another size, another digest."""
    return {one.file.path for one in bad(case, *COUNTS)}


@once
def _told_by_decoders(case: Case) -> set[str]:
    """Files over which a recorded run ended with an exception that says what is wrong with them."""
    return {path_of(one.failure) for one in undecoded(case)[:1]}


def _explained(fault: Fault, file: DataFile) -> bool:
    return len(file.faults) > 1 and any(_explains(other, fault) for other in file.faults)


def _explains(one: Fault, other: Fault) -> bool:
    """The same member, or all that follows a place from which on nothing can be trusted."""
    if RANKS.get(one.kind, 0) >= RANKS.get(other.kind, 0):
        return False
    if one.kind in ENDS and (one.at is None or other.at is None or other.at >= one.at):
        return True
    return bool(one.member) and one.member == other.member


@once
def _habits(case: Case) -> Counter[tuple[str, bool]]:
    """Archives of each folder: all of them, and those without an end mark."""
    found: Counter[tuple[str, bool]] = Counter()
    for file in case.data.files if case.data is not None else ():
        if file.format == "tar":
            folder = file.path.rpartition("/")[0]
            found[folder, False] += 1
            found[folder, True] += NO_END in file.counts
    return found


def _is_habit(fault: Fault, file: DataFile, habits: Counter[tuple[str, bool]], case: Case) -> bool:
    """Hardly any archive next to it has an end mark, or, of a run, none was checked: then a missing mark is no sign."""
    if fault.kind != NO_END:
        return False
    folder = file.path.rpartition("/")[0]
    others, without = habits[folder, False] - 1, habits[folder, True] - 1
    if not others:
        return case.data is not None and case.data.of_run
    return without >= HABIT * others


# Which line of a manifest speaks of which file.


def matched(manifest: Manifest, files: Iterable[str]) -> dict[str, Listed]:
    """By path; else by the end of it, by its last part, by that without endings.

    The first of these ways that matches anything holds for all: a file that is missing and another that was added
    are not to be taken for each other because their last parts are the same.
    """
    checked = list(files)
    for way in (_path, _end, _name, _stem):
        known, unique = _unique((one.path for one in manifest.files), way), _unique(checked, way)
        found = {checked[number]: manifest.files[known[key]] for key, number in unique.items() if key in known}
        if found:
            return found
    return {}


def _unique(paths: Iterable[str], way: Callable[[str], str]) -> dict[str, int]:
    """Positions, by what is compared; without what is there twice."""
    found: dict[str, int] = {}
    twice = set()
    for number, path in enumerate(paths):
        key = way(path)
        if found.setdefault(key, number) != number:
            twice.add(key)
    return {key: number for key, number in found.items() if key not in twice}


def _path(path: str) -> str:
    return path if "://" in path.removeprefix("file://") else os.path.abspath(path.removeprefix("file://"))


def _end(path: str) -> str:
    return "/".join(_path(path).rsplit("/", 2)[-2:])


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    return _name(path).partition(".")[0]


# What a manifest says of which file, and what it lists that is not there.


@once
def listed(case: Case) -> dict[str, Listed]:
    """Entries by the file they speak of."""
    data = case.data
    if data is None or data.manifest is None:
        return {}
    return matched(data.manifest, [one.path for one in data.files])


@once
def absent(case: Case) -> list[Listed]:
    """Listed and not there: nothing was found at its path, or a folder that was read as a whole has not got it."""
    data = case.data
    if data is None or data.manifest is None or data.stopped:
        return []
    entries = listed(case)
    known, gone = {one.path for one in entries.values()}, set(data.absent)
    summed_up = {one.path for one in data.folders}  # files of these are not known one by one
    # Folders of the manifest, by where their files are now: data is moved, and lists are kept elsewhere.
    moved = {folder_of(one.path): folder_of(path) for path, one in entries.items()}
    return [
        one
        for one in data.manifest.files
        if one.path not in known
        and (one.path in gone or _belongs(moved.get(folder_of(one.path), folder_of(one.path)), summed_up, data))
    ]


def _belongs(folder: str, summed_up: set[str], data: Data) -> bool:
    """It, or a folder that it lies in, was asked for as a whole."""
    inside = any(f"{folder}/".startswith(f"{one.rstrip('/')}/") or one in (".", "./") for one in data.asked.paths)
    return inside and folder not in summed_up


# What damage costs: how many samples a file should have, by itself, by the manifest, or by its siblings.
# Samples with such a fault are there, and are counted, though they are of no use.
COUNTED = ("image", "undecodable", "zeros", "tar-apart", "tar-duplicate", "manifest")
ENOUGH = 3  # siblings that must be whole
FEW = 2  # files: of more of them, a cause says no more than how many samples are lost
MANIFEST = "the manifest"  # says it exactly; siblings only give an estimate
ALIKE = 0.8  # of them that must have the same number: then every shard was meant to have it


class Loss(NamedTuple):
    """Samples that training does not get. `about`: concluded from siblings of different lengths."""

    lost: int
    of: int
    by: str = ""  # what says so, where it is not the file itself
    about: bool = False


def losses(case: Case, found: list[Bad]) -> list[Loss | None]:
    """Of each of these files; None where nothing tells."""
    entries, usual = listed(case), _usual(case) | _given(case)
    return [_loss(one, entries[one.file.path].samples if one.file.path in entries else None, usual) for one in found]


def _loss(bad: Bad, promised: int | None, usual: dict[str, Loss]) -> Loss | None:
    cut = sum(one.kind == "tar-cut-data" and bool(one.sample) for one in bad.faults)
    have = max((bad.file.samples or 0) - cut, 0)  # the sample that is cut is none
    if promised is not None and promised > have:
        return Loss(promised - have, promised, MANIFEST)
    if bad.lost is not None:
        counted = sum(one.lost or 0 for one in bad.faults if one.kind in COUNTED) if bad.file.format != "jsonl" else 0
        counted = counted * bad.total // len(bad.faults)
        return Loss(bad.lost, max(have + bad.lost - counted, bad.lost))
    known = usual.get(bad.file.path)
    return known._replace(lost=known.of - have) if known is not None and known.of > have else None


@once
def _given(case: Case) -> dict[str, Loss]:
    """What a recorded run got of other files of the same list, by file."""
    short = [one for each in case.recording or () for shards in each.shards for one in shards.short]
    cwd = case.run.cwd
    return {posixpath.join(cwd, one.path): Loss(0, one.usual, "the most that another shard gave") for one in short}


@once
def _usual(case: Case) -> dict[str, Loss]:
    """How many samples its whole siblings have, by file."""
    found, not_whole = dict[str, Loss](), incomplete(case)
    for series in all_series(case):
        counts = [one.samples for one in series.files if one.samples and one.path not in not_whole and one.whole]
        if len(counts) >= ENOUGH:
            middle = int(median(counts))
            about = sum(one == middle for one in counts) < ALIKE * len(counts)
            known = Loss(0, middle, "the other shards" if not about else "the median of the other shards", about)
            found |= {one.path: known for one in series.files[:-1]}  # the last of a series may be shorter
    return found


def cost(case: Case, found: list[Bad], what: str = "lost") -> str:
    """24 of 50 samples are lost. Of files that hold one sample each there is no more to say than that they are bad."""
    known = _known_losses(case, found)
    if not known:
        return ""
    lost, of = sum(one.lost for one in known), sum(one.of for one in known)
    about = "about " if any(one.by and one.by != MANIFEST for one in known) else ""
    count = f"{lost:,} of {many(of, 'sample')}" if lost < of else f"{'' if about else 'all '}{many(of, 'sample')}"
    count = count if len(found) <= FEW else many(lost, "sample")
    return f"{about}{count} {'is' if lost == 1 else 'are'} {what}"


def how_known(case: Case, found: list[Bad]) -> list[str]:
    """Evidence beside `cost`: what says how many samples are lost, where it is not the file itself, and of how many."""
    known = _known_losses(case, found)
    by = sorted({one.by for one in known if one.by})
    told = (
        [f"number of samples lost: {'from' if by == [MANIFEST] else 'estimated from'} {' and '.join(by)}"] if by else []
    )
    if known and len(found) > FEW:
        told.append(f"samples lost: {sum(one.lost for one in known):,} of {sum(one.of for one in known):,}")
    if known and len(known) < len(found):
        told.append(f"number of samples lost: known for {len(known):,} of {many(len(found), 'file')}")
    return told


def _known_losses(case: Case, found: list[Bad]) -> list[Loss]:
    return [one for one in losses(case, found) if one is not None and one.of > 1]


# Samples of archives that lack a part which nearly all others of their series have.
NEARLY_ALL = 0.9  # of the samples: a part that fewer have is optional


class Lacking(NamedTuple):
    """Samples of one archive that lack parts."""

    file: DataFile
    group: Group
    missing: list[str]


class ArchiveSeries(NamedTuple):
    """Archives that belong together, by their names."""

    samples: int
    lacking: list[Lacking]  # the most first


def archive_series(files: Iterable[DataFile]) -> list[ArchiveSeries]:
    """Those in which something is lacking, the worst first."""
    folders: dict[tuple[str, str], list[DataFile]] = {}
    for file in files:
        if file.groups:
            folders.setdefault((folder_of(file.path), pattern_of(file.path)), []).append(file)
    found = [_of(own) for own in folders.values()]
    return sorted(
        (one for one in found if one.lacking), key=lambda one: -sum(each.group.samples for each in one.lacking)
    )


def _of(files: list[DataFile]) -> ArchiveSeries:
    groups = [(file, group) for file in files for group in file.groups]
    total, have = sum(group.samples for _, group in groups), Counter[str]()
    for _, group in groups:
        have.update(dict.fromkeys(group.parts, group.samples))
    wanted = sorted(part for part, count in have.items() if NEARLY_ALL * total <= count < total)
    found = [
        Lacking(file, group, missing)
        for file, group in groups
        if (missing := [part for part in wanted if part not in group.parts])
    ]
    return ArchiveSeries(total, sorted(found, key=lambda one: -one.group.samples))
