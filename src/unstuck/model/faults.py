"""Questions about data files that were read: which have what wrong with them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .checked import DataFile, Fault
from .data_concerned import concerned
from .decoding import path_of, undecoded
from .evidence import Evidence
from .finding import Subject

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
NO_END = "tar-no-end"
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


def bad(evidence: Evidence, *kinds: str) -> list[Bad]:
    """Files that have faults of these kinds which no other fault of the same file explains, the worst first."""
    found, habits, told = [], _habits(evidence), _told_by_decoders(evidence)
    for file in _files(evidence):
        own = [one for one in file.faults if one.kind in kinds and not (file.path in told and one.kind in OF_CONTENT)]
        left = [one for one in own if not _explained(one, file) and not _is_habit(one, file, habits, evidence)]
        if left:
            total = sum(file.counts.get(kind, 0) for kind in kinds) - len(own) + len(left)
            found.append(Bad(file, left, max(total, len(left))))
    return sorted(found, key=lambda one: (-(one.lost or 0), -one.total, one.file.path))


def _files(evidence: Evidence) -> list[DataFile]:
    """Of a run that ended by an exception, only those that it is about."""
    data = evidence.data
    about = concerned(evidence) if data is not None and data.of_run else None
    return [one for one in (data.files if data is not None else ()) if about is None or one.path in about]


def incomplete(evidence: Evidence) -> set[str]:
    """Files with faults that explain whatever else is odd about them: fewer samples, another size, another digest."""
    return {one.file.path for one in bad(evidence, *COUNTS)}


def _told_by_decoders(evidence: Evidence) -> set[str]:
    """Files over which a recorded run ended with an exception that says what is wrong with them."""
    return {path_of(one.failure) for one in undecoded(evidence)[:1]}


def _explained(fault: Fault, file: DataFile) -> bool:
    return len(file.faults) > 1 and any(_explains(other, fault) for other in file.faults)


def _explains(one: Fault, other: Fault) -> bool:
    """The same member, or all that follows a place from which on nothing can be trusted."""
    if RANKS.get(one.kind, 0) >= RANKS.get(other.kind, 0):
        return False
    if one.kind in ENDS and (one.at is None or other.at is None or other.at >= one.at):
        return True
    return bool(one.member) and one.member == other.member


def _habits(evidence: Evidence) -> Counter[tuple[str, bool]]:
    """Archives of each folder: all of them, and those without an end mark."""
    found: Counter[tuple[str, bool]] = Counter()
    for file in evidence.data.files if evidence.data is not None else ():
        if file.format == "tar":
            folder = file.path.rpartition("/")[0]
            found[folder, False] += 1
            found[folder, True] += NO_END in file.counts
    return found


def _is_habit(fault: Fault, file: DataFile, habits: Counter[tuple[str, bool]], evidence: Evidence) -> bool:
    """Hardly any archive beside it has an end mark, or, of a run, nobody has looked: so to have none is no sign."""
    if fault.kind != NO_END:
        return False
    folder = file.path.rpartition("/")[0]
    others, without = habits[folder, False] - 1, habits[folder, True] - 1
    if not others:
        return evidence.data is not None and evidence.data.of_run
    return without >= HABIT * others
