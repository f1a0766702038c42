"""Turns one recording into the Process section of Evidence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from ..evidence.basics import Timing
from ..evidence.loader import Fetching, FetchState, Loader, LoaderState
from ..evidence.process import Failure, Process, StageNow
from ..inside import format as f
from ..inside.format import Kind
from ..wording.left_out import encodable, left_out
from . import beginning, frameworks, ranks, told
from .calls import calls
from .collecting import collecting
from .collectives import collectives
from .compiled import compiled
from .crashes import crash_of
from .data_facts import graphs, of_fetching, of_loader
from .decoder import FETCH_KINDS, LOADER_KINDS, MOMENT, Entry
from .gaps import gaps
from .loggers import loggers
from .phases import phases
from .prepared import prepared
from .reader import Facts, timing_of
from .sampling import sampling
from .saved import saved, saving
from .shards import shards
from .sources import data_files, sources
from .thread_settings import threads
from .wrapped import wrapped

PHASES = {
    Kind.LOADER: LoaderState.ABOUT_TO_ASK,
    Kind.ITERATOR: LoaderState.STARTING,
    Kind.WAIT: LoaderState.WAITING,
    Kind.BODY: LoaderState.IN_BODY,
    Kind.PASS_END: LoaderState.BETWEEN_PASSES,
    Kind.SHUTDOWN: LoaderState.ENDING_WORKERS,
}
FETCHES = {
    Kind.FETCH: FetchState.FETCHING,
    Kind.SAMPLE: FetchState.LOADING,
    Kind.COLLATE: FetchState.COLLATING,
    Kind.IDLE: FetchState.IDLE,
}
T = TypeVar("T")
NOTHING = -1  # no index
RECENT = 64  # waits that are kept one by one


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
        rank=_less_one(header[f.H_RANK]),
        local_rank=_less_one(header[f.H_LOCAL_RANK]),
        world=header[f.H_WORLD] or None,
        worker=_less_one(header[f.H_WORKER]),
        workers=header[f.H_WORKERS] or None,
        opened=facts.at(header[f.H_MONOTONIC]),
        last_sign=facts.at(facts.recording.newest() or header[f.H_MONOTONIC]),
        ended=facts.at(ended) if ended else None,
        ended_how=f.ENDINGS[header[f.H_ENDED_HOW]] if header[f.H_ENDED_HOW] < len(f.ENDINGS) else "",
        alive=_is_alive(header[f.H_PID], header[f.H_STARTED]),
        loaders=frameworks.made_by(facts, _loaders(facts)),
        fetching=_fetching(facts),
        **beginning.of_process(facts),
        progress=told.progress(facts),
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
        metrics=told.metrics(facts.recording, facts.board, facts.at),
        saved=known,
        saving=saving(facts, known),
        calls=calls(facts),
        compiled=compiled(facts),
        collecting=collecting(facts),
        loggers=loggers(facts),
        crash=crash,
        crash_beside=beside,
        attempt=header[f.H_ATTEMPT],
        group=ranks.group(facts),
        spans=ranks.spans(facts),
        wrapped=wrapped(facts),
        phases=phases(facts, known, facts.exactly),
        prepared=prepared(facts),
        sources=sources(facts),
        data_files=data_files(facts),
        shards=shards(facts),
        threads=threads(facts),
        **frameworks.of_process(facts),
        collectives=traced,
        traced=at,
        stages_now=[_stage_now(facts, entry) for entry in facts.board if entry.kind == Kind.STAGE and entry.a],
    )


def _beside(facts: Facts, ending: str, read: Callable[[Path], T]) -> T | None:
    """What lies beside a recording adds to it: where that cannot be read, the recording still can."""
    path = facts.recording.path.with_suffix(ending)
    try:
        return read(path)
    except (OSError, ValueError, RecursionError) as error:
        facts.left_out.append(left_out(path, error))
        return None


def _loaders(facts: Facts) -> list[Loader]:
    described = facts.noted(Kind.LOADER)
    descriptions = dict.fromkeys((one[f.R_KEY] for one in described), 0)
    descriptions.update({one[f.R_KEY]: one[f.R_A] for one in described if one[f.R_A]})  # 0: there was no room for it
    between = gaps(facts)
    found = [_loader(facts, number, facts.recording.told(text)) for number, text in sorted(descriptions.items())]
    return [msgspec.structs.replace(one, **between.get(one.number, {})) for one in found]


def _loader(facts: Facts, number: int, known: dict[str, Any]) -> Loader:
    since = beginning.described_since(facts, number)
    lengths = [one for one in facts.noted(Kind.LENGTH, number) if one[f.R_START] >= since]
    failures = facts.noted(Kind.ITERATOR_FAILED, number)
    board = next((one for one in facts.board if one.key == number and one.kind in LOADER_KINDS), None)
    fields = {
        "number": number,
        "dataset": known.pop("dataset_inner", None) or "",
        "passes": board.b if board else _passes(facts, number),
        "batches": board.c if board else _batches(facts, number),
        "pass_batches": board.a if board else 0,
        "optimizer_steps": board.d if board else 0,
        "now": PHASES.get(board.kind, LoaderState.UNKNOWN) if board else LoaderState.UNKNOWN,
        "now_since": facts.at(board.since) if board else 0.0,
        "waits": facts.timing(Kind.WAIT, number),
        "first_waits": facts.timing(Kind.FIRST_WAIT, number),
        "bodies": facts.timing(Kind.BODY, number),
        "starts": facts.timing(Kind.ITERATOR, number),
        "shutdowns": facts.timing(Kind.SHUTDOWN, number),
        **_skipped(facts, number),
        "recent_waits": _recent(facts, number),
        "arrived": _arrived(facts, number),
        "dataset_length": max((one[f.R_A] for one in lengths), default=0) - 1,
        "length": lengths[-1][f.R_B] - 1 if lengths else None,
        "failed": facts.recording.string(failures[-1][f.R_B]) if failures else None,
        **of_loader(facts, number),
        **beginning.of_loader(facts, number),
        "sampling": sampling(facts, number),
        "pids": [one[f.R_A] for one in facts.noted(Kind.WORKER, number) if one[f.R_START] >= since][-256:],
    }
    if fields["dataset_length"] == -1:
        fields["dataset_length"] = None
    wanted = {name: value for name, value in known.items() if name in Loader.__struct_fields__ and value is not None}
    return msgspec.convert({**wanted, **fields}, Loader, strict=False, from_attributes=True)


def _passes(facts: Facts, number: int) -> int:
    """Of a loader that found no room on the board, beside so many others: as far as its notes go."""
    return max((one[f.R_A] for one in facts.noted(Kind.ITERATOR, number)), default=0)


def _batches(facts: Facts, number: int) -> int:
    ended = sum(one[f.R_A] for one in facts.noted(Kind.PASS_END, number))
    return max(ended, len(facts.recording.events(Kind.WAIT, number)))


def _fetching(facts: Facts) -> list[Fetching]:
    loaders = sorted(key for kind, key in facts.totals if kind == Kind.FETCH)
    return [_fetching_for(facts, number) for number in loaders]


def _fetching_for(facts: Facts, number: int) -> Fetching:
    board = next((one for one in facts.board if one.key == number and one.kind in FETCH_KINDS), None)
    return Fetching(
        loader=number,
        batches=board.a if board else 0,
        samples=board.b if board else 0,
        fetches=facts.timing(Kind.FETCH, number),
        sample_times=facts.timing(Kind.SAMPLE, number),
        collates=facts.timing(Kind.COLLATE, number),
        cpu=facts.timing(Kind.FETCH_CPU, number),
        cpu_of=facts.timing(Kind.FETCH_TIMED, number),
        idle=facts.timing(Kind.IDLE, number),
        handovers=facts.timing(Kind.HANDOVER, 0),
        now=FETCHES.get(board.kind, FetchState.UNKNOWN) if board else FetchState.UNKNOWN,
        now_since=facts.at(board.since) if board else 0.0,
        index=_index(board) if board and board.kind in (Kind.SAMPLE, Kind.COLLATE) else None,
        **of_fetching(facts, number),
        held_back=beginning.held_back(facts, number),
    )


def _skipped(facts: Facts, number: int) -> dict[str, Any]:
    """Batches before the first optimizer step, and those passed over, as far back as the ring goes."""
    first = min((one[f.R_START] for one in facts.noted(Kind.OPTIMIZER)), default=0)
    rows = facts.recording.events(Kind.WAIT, number)
    early = rows[:, f.R_START] < first
    for one in facts.noted(Kind.SKIPPING, number):
        early |= (rows[:, f.R_START] >= one[f.R_START]) & (rows[:, f.R_A] < one[f.R_A])
    rows = rows[early & (rows[:, f.R_A] > 0)]
    waited, bodies = int(rows[:, f.R_DURATION].sum()), int(rows[:, f.R_C].sum())
    skipped = Timing(count=len(rows), total=waited / 1e9) if len(rows) else Timing()
    return {"skipped": skipped, "skipped_bodies": bodies / 1e9}


def _recent(facts: Facts, number: int) -> list[float]:
    rows = facts.recording.events(Kind.WAIT, number)
    if not len(rows):
        return []
    newest = rows[(rows[:, f.R_B] == rows[:, f.R_B].max()) & (rows[:, f.R_A] > 0)]
    return [round(one / 1e9, 6) for one in newest[-RECENT:, f.R_DURATION].tolist()]


def _arrived(facts: Facts, number: int) -> list[tuple[int, float]]:
    """Only a rank can be ahead of what it waits for."""
    if facts.recording.header[f.H_WORLD] < 2:
        return []
    rows = facts.recording.events(Kind.WAIT, number)[-RECENT:]
    came = rows[:, f.R_START] + rows[:, f.R_DURATION]
    return [(of, facts.exactly(at)) for of, at in zip(rows[:, f.R_B].tolist(), came.tolist(), strict=True)]


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


def _less_one(word: int) -> int | None:
    return word - 1 if word else None


def _index(entry: Entry) -> int | str | None:
    if entry.text:
        return entry.text
    return None if entry.c == NOTHING else entry.c


def _is_alive(pid: int, started: int) -> bool:
    """Whether this very process still runs here: a pid alone may have been given away."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(stat[19]) == started and stat[0] not in (b"Z", b"X") and os.path.exists(f"/proc/{pid}")
