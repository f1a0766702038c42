"""Turns one recording into the Process section of Evidence: what the process is, what it said, how it ended."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from ..evidence import Exit
from ..evidence.basics import Place
from ..evidence.process import Failure, Graph, Metric, Process, Progress, Shared, StageNow, Threads
from ..inside import format as f
from ..inside.format import Kind
from ..safe_files import read_plain
from ..wording.left_out import encodable, left_out
from .data_sources import data_files, frameworks_of, made_by, shards, sources
from .decoder import MOMENT, Entry, less_one, signed
from .distributed import collectives, group, prepared, spans, wrapped
from .loaders import fetching_of, loaders_of
from .phases import phases
from .reader import Facts, Recording, timing_of
from .side_work import calls, collecting, compiled, loggers, saved, saving
from .start import start_of

T = TypeVar("T")
EXITS = {f.EXIT_REAPED: "reaped", f.EXIT_PEEKED: "peeked"}
LARGEST_STACKS = 16 << 20  # bytes: stacks of 100 threads are a fiftieth of that, and are asked for now and then
FATAL = "Fatal Python error: "
THREAD = re.compile(r"^(Current thread|Thread) 0x")
OURS = "/unstuck/inside/"  # the recorder's own calls around the user's: nothing crashes in them
FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')


class _Cause(msgspec.Struct):
    type: str
    message: str


class _Said(msgspec.Struct):
    """The parts of an exception's last words that are told in another form."""

    at: Annotated[int, msgspec.Meta(ge=0, le=MOMENT)] = 0
    shm: tuple[int | None, int | None] | None = None
    causes: list[_Cause] | None = None


def process_of(facts: Facts) -> Process:
    header = facts.recording.header
    role = f.ROLES[header[f.H_ROLE]] if header[f.H_ROLE] < len(f.ROLES) else "other"
    ended = header[f.H_ENDED]
    traced, at = _beside(facts, ".flight", lambda file: collectives(file, facts.run_started)) or ([], None)
    known = saved(facts)
    crash, beside = _beside(facts, ".stacks", crash_of) or ([], [])
    return Process(
        node=node_of(facts.recording.path),
        pid=header[f.H_PID],
        parent=header[f.H_PARENT],
        role=role,
        rank=less_one(header[f.H_RANK]),
        local_rank=less_one(header[f.H_LOCAL_RANK]),
        world=header[f.H_WORLD] or None,
        worker=less_one(header[f.H_WORKER]),
        workers=header[f.H_WORKERS] or None,
        opened=facts.at(header[f.H_MONOTONIC]),
        wall_offset=facts.recording.seconds(0),
        last_sign=facts.at(facts.recording.newest() or header[f.H_MONOTONIC]),
        ended=facts.at(ended) if ended else None,
        ended_how=f.ENDINGS[header[f.H_ENDED_HOW]] if header[f.H_ENDED_HOW] < len(f.ENDINGS) else "",
        alive=_is_alive(header[f.H_PID], header[f.H_STARTED]),
        loaders=made_by(facts, loaders_of(facts)),
        fetching=fetching_of(facts),
        **start_of(facts),
        progress=progress(facts),
        optimizer_steps=header[f.H_STEPS],
        last_step=facts.at(header[f.H_STEP_AT]) if header[f.H_STEPS] else None,
        failures=[_failure(facts, said) for said in facts.recording.last_words()],
        cost=timing_of(header[f.H_COST_COUNT], header[f.H_COST], header[f.H_COST_MAX]),
        size=header[f.H_SIZE],
        adapters_failed=[facts.recording.string(one[f.R_A]) for one in facts.noted(Kind.ADAPTER_FAILED)],
        stack_signal=header[f.H_STACK_SIGNAL],
        threads_at_fork=header[f.H_FORK_THREADS] or None,
        thread_names_at_fork=_thread_names(facts),
        graphs=graphs(facts),
        metrics=metrics(facts.recording, facts.board, facts.at),
        saved=known,
        saving=saving(facts, known),
        calls=calls(facts),
        compiled=compiled(facts),
        collecting=collecting(facts),
        loggers=loggers(facts),
        crash=crash,
        crash_beside=beside,
        attempt=header[f.H_ATTEMPT],
        group=group(facts),
        spans=spans(facts),
        wrapped=wrapped(facts),
        phases=phases(facts, known, facts.exactly),
        prepared=prepared(facts),
        sources=sources(facts),
        data_files=data_files(facts),
        shards=shards(facts),
        threads=threads(facts),
        versions=versions(facts),
        **frameworks_of(facts),
        collectives=traced,
        traced=at,
        stages_now=[_stage_now(facts, entry) for entry in facts.board if entry.kind == Kind.STAGE and entry.a],
    )


def exits_of(facts: Facts) -> list[Exit]:
    """Of children, as this process learned of them."""
    by, node = facts.recording.header[f.H_PID], node_of(facts.recording.path)
    return [
        Exit(
            pid=one[f.R_A],
            status=signed(one[f.R_B]),
            at=facts.at(one[f.R_START]),
            how=EXITS.get(one[f.R_C], "reaped"),
            by=by,
            node=node,
        )
        for one in facts.noted(Kind.EXIT)
    ]


def _beside(facts: Facts, ending: str, read: Callable[[Path], T]) -> T | None:
    """What lies beside a recording adds to it: where that cannot be read, the recording still can."""
    path = facts.recording.path.with_suffix(ending)
    try:
        return read(path)
    except (OSError, ValueError, RecursionError) as error:
        facts.left_out.append(left_out(path, error))
        return None


def _thread_names(facts: Facts) -> list[str]:
    text = facts.recording.string(facts.recording.header[f.H_FORK_NAMES])
    return msgspec.json.decode(text, type=list[str]) if text else []


def _stage_now(facts: Facts, entry: Entry) -> StageNow:
    return StageNow(name=facts.recording.string(entry.key), item=entry.text, since=facts.at(entry.since))


def _failure(facts: Facts, said: dict[str, Any]) -> Failure:
    """What is not as it should be is a ValueError: the recording is damaged, or was written by another version."""
    told = msgspec.convert(said, _Said, strict=False)
    wanted = {name: value for name, value in said.items() if name in Failure.__struct_fields__ and value is not None}
    size, free = told.shm or (None, None)
    causes = [(one.type, one.message) for one in told.causes or ()]
    fields = {"at": facts.at(told.at), "causes": causes, "shm_size": size, "shm_free": free}
    return msgspec.convert({**wanted, **fields}, Failure, strict=False)


def node_of(path: Path) -> str:
    return encodable(path.name.rsplit(".", 4)[0])


def _is_alive(pid: int, started: int) -> bool:
    """Whether this very process still runs here: a pid alone may have been given away."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(stat[19]) == started and stat[0] not in (b"Z", b"X") and os.path.exists(f"/proc/{pid}")


def metrics(recording: Recording, board: list[Entry], at: Callable[[int], float]) -> list[Metric]:
    """The newest of each name that has a place on the board. A step of -1: it was not told."""
    newest = {one.key: (one.since, one.a, one.b) for one in board if one.kind == Kind.METRIC}
    rows = recording.events(Kind.METRIC).astype(np.int64).tolist() if newest else []
    for row in rows:  # the board is a moment behind the ring
        key, when = row[f.R_KEY], row[f.R_START]
        if key in newest and when >= newest[key][0]:
            newest[key] = (when, row[f.R_A], row[f.R_B])
    return [
        Metric(name=recording.string(key), value=_double(bits), step=step - 1, at=at(when))
        for key, (when, step, bits) in newest.items()
    ]


def progress(facts: Facts) -> list[Progress]:
    """The newest of each name."""
    return [_progress(facts, one) for one in facts.board if one.kind == Kind.PROGRESS]


def _progress(facts: Facts, entry: Entry) -> Progress:
    rose = [one[f.R_DURATION] / 1e9 for one in facts.noted(Kind.PROGRESS, entry.key)]
    return Progress(
        name=facts.recording.string(entry.key),
        have=entry.a,
        need=entry.b,
        unit=facts.recording.string(entry.c),
        since=facts.at(entry.since),
        first=facts.at(entry.d >> 1) if entry.d else None,
        rose=rose[0] if rose else None,
    )


def _double(word: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<q", word))
    return float(value)


def versions(facts: Facts) -> dict[str, str]:
    notes = facts.noted(Kind.VERSIONS)
    told = facts.recording.told(notes[-1][f.R_A]) if notes else {}
    return {name: version for name, version in told.items() if isinstance(version, str)}


def threads(facts: Facts) -> Threads | None:
    notes = facts.noted(Kind.THREADS)
    told = facts.recording.told(notes[0][f.R_A]) if notes else {}
    if not told:
        return None
    looked = [_shared(facts, one) for one in facts.noted(Kind.SHARED)]
    return msgspec.convert({**told, "shared": looked}, Threads)


def _shared(facts: Facts, one: list[int]) -> Shared:
    return msgspec.convert({**facts.recording.told(one[f.R_A]), "loader": one[f.R_KEY]}, Shared)


def graphs(facts: Facts) -> list[Graph]:
    return [
        Graph(
            at=facts.at(one[f.R_START]),
            step=one[f.R_A],
            nodes=one[f.R_B],
            **facts.decoded(one[f.R_C], _Counted).fields(),
        )
        for one in facts.noted(Kind.GRAPH)
    ]


class _Counted(msgspec.Struct):
    tensors: int = 1
    limited: bool = False
    where: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        place = msgspec.convert(self.where, Place) if self.where else None
        return {"tensors": self.tensors, "limited": self.limited, "where": place}


def crash_of(stacks: Path) -> tuple[list[Place], list[Place]]:
    """Of the thread that crashed, the innermost call last; or, where it was none of Python's, of the main thread.

    The first of the two, or the second. Both are empty where it did not crash, or nobody could write it down. Raises
    OSError where it cannot be read.
    """
    try:
        said = read_plain(stacks, largest=LARGEST_STACKS).decode("utf-8", "replace")
    except FileNotFoundError:
        return [], []
    crashed: list[Place] | None = None
    newest: list[Place] = []
    for line in said.partition(FATAL)[2].splitlines():
        if THREAD.match(line):
            newest = []
            crashed = newest if line.startswith("Current") else crashed
        elif (frame := FRAME.match(line)) and OURS not in frame[1]:
            newest.append(Place(frame[1], int(frame[2]), frame[3]))
    if crashed is not None:
        return crashed[::-1], []
    return [], newest[::-1]  # the main thread is the oldest: it comes last
