"""Findings and the report that carries them, as people and machines read them."""

from __future__ import annotations

import msgspec

from .evidence import Evidence
from .evidence.basics import Place, Slowest
from .evidence.data import Data, Fault
from .evidence.finding import Finding, Symptom
from .evidence.process import Step
from .evidence.trial import Trial
from .wording.texts import every_text

SCHEMA = 1
NOTHING = "Nothing of a training was seen"  # so begins what is unsettled of a run that showed none


class Activity(msgspec.Struct, frozen=True):
    """What one rank is doing now, or was doing last."""

    rank: int | None
    doing: str
    since_s: float = 0.0
    moving: bool = False
    have: int | None = None
    need: int | None = None
    unit: str = ""
    live: bool = False  # seen at this moment, not read from a recording
    between: str = ""  # between which marks of the log it stands


class Spent(msgspec.Struct, frozen=True):
    """What part of the time that was sampled went into, in a main thread or in all workers of its loader together."""

    rank: int | None
    worker: int | None  # None: all of them
    role: str  # main, workers
    what: str
    where: Place | None
    share: float
    seconds: float


class BadFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A data file with faults, or one that a manifest lists and that is not there; and the samples lost with it."""

    path: str
    first: Fault | None = None  # None: it is not there
    more: int = 0  # places in it that are wrong, beside the first
    lost: int | None = None  # samples; None: nothing tells
    of: int | None = None
    about: bool = False  # concluded from files beside it
    format: str = ""


class NotChecked(msgspec.Struct, frozen=True):
    """Rules that could not judge, and what they would have needed."""

    needs: str
    rules: list[str]


class Overhead(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the recording itself has cost, measured by the recorder."""

    total_ms: float = 0.0
    per_step_us: float | None = None
    per_sample_us: float | None = None
    share_of_step: float | None = None
    longest_us: float = 0.0
    recorded_bytes: int = 0


class Bottleneck(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one answer to: what is the limit of this run, and is it the data?"""

    answer: str  # data, compute, between steps, start-up, balanced, unknown
    text: str  # one sentence, with the numbers
    waiting: float | None = None  # share of the loop in which data was waited for
    between: float | None = None  # share of it in side work
    gpu: float | None = None  # share of the time in which the GPUs were busy
    spare_workers: int = 0  # that could be given back
    seen: list[str] = []


class StageTime(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one stage of loading samples cost, in all processes that load for one loader together."""

    rank: int | None
    loader: str
    name: str  # as the user calls it; read or decode by a function that is known; process: the rest; collate
    share: float  # of all loading
    seconds: float
    count: int
    mean: float = 0.0
    p50: float | None = None
    p95: float | None = None
    longest: float | None = None
    processor: float | None = None  # share of its time in which it computed
    kind: str = ""  # computing, reading, waiting, waiting for a CPU core; "": it cannot be told
    slowest: list[Slowest] = []


class RunName(msgspec.Struct, frozen=True):
    """Which run a report is about."""

    id: str
    command: list[str]
    started: float
    host: str


class Report(msgspec.Struct, frozen=True):
    """The verdict on a run. With its evidence it can be drawn again, sent, and judged by newer rules."""

    unstuck: str
    run: RunName
    state: str
    findings: list[Finding] = []
    activities: list[Activity] = []
    unsettled: list[str] = []  # who makes no progress for no known cause, and what would settle it
    meaning: str = ""  # what it means that the ranks stand between these marks
    spent: list[Spent] = []
    bottleneck: Bottleneck | None = None
    start: list[Step] = []  # of the way to the first step, by rank
    stages: list[StageTime] = []  # of loading, by loader, the most costly first
    not_checked: list[NotChecked] = []
    overhead: Overhead = Overhead()
    summary: str = ""
    framework: str = ""  # whose trainer runs the loop, and what it was asked to do
    notes: list[str] = []
    trial: Trial | None = None  # what was tried on purpose: rungs, measured settings, the budget
    data: Data | None = None  # what was checked, file by file
    bad_files: list[BadFile] = []  # of those, the worst first
    evidence: str | Evidence | None = None
    schema: int = SCHEMA


class Ahead(msgspec.Struct, frozen=True):
    """What a look at a run that goes on has to say."""

    findings: list[Finding] = []  # of what will go wrong
    start: list[str] = []  # how far its ranks are on their way to the first step


class Training(msgspec.Struct, frozen=True):
    """One training on this machine, as a list shows it."""

    pid: int
    command: str
    age: float
    processes: int
    ranks: int
    workers: int
    doing: list[str]
    folder: str = ""


def root_of(findings: list[Finding]) -> Finding | None:
    """What a recording says about why a trial failed. That it was slow does not explain it."""
    bad = (Symptom.CRASHED.value, Symptom.STUCK.value)
    return next((one for one in findings if one.role == "root" and one.symptom in bad), None)


def encoded(report: Report) -> bytes:
    """As it is saved. A name on this system may be no UTF-8, which JSON cannot hold."""
    try:
        return msgspec.json.encode(report)
    except UnicodeEncodeError:
        plain = every_text(report, lambda text: text.encode("utf-8", "backslashreplace").decode())
        return msgspec.json.encode(plain)
