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
from .decoder import FETCH_KINDS, LOADER_KINDS, MOMENT, Entry, quantile
from .gaps import gaps
from .loggers import loggers
from .phases import phases
from .prepared import prepared
from .reader import Recording
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


class Facts:
    """Reads one recording with times counted from the beginning of the run."""

    def __init__(self, recording: Recording, run_started: float) -> None:
        self.recording = recording
        self.run_started = run_started
        self.totals = recording.totals()
        self.notes = recording.notes()
        self.board = recording.board()
        # Files beside the recording, and parts of it, that could not be read.
        damaged = [f"{number:,} {what}" for what, number in recording.damaged.items()]
        self.left_out = [f"{recording.path} is damaged: {', '.join(damaged)} are left out"] if damaged else []

    def process(self) -> Process:
        header = self.recording.header
        role = f.ROLES[header[f.H_ROLE]] if header[f.H_ROLE] < len(f.ROLES) else "other"
        ended = header[f.H_ENDED]
        traced, at = self._beside(".flight", lambda file: collectives(file, self.run_started)) or ([], None)
        known = saved(self)
        crash, beside = self._beside(".stacks", crash_of) or ([], [])
        return Process(
            node=node_of(self.recording.path),
            pid=header[f.H_PID],
            parent=header[f.H_PARENT],
            role=role,
            rank=_less_one(header[f.H_RANK]),
            local_rank=_less_one(header[f.H_LOCAL_RANK]),
            world=header[f.H_WORLD] or None,
            worker=_less_one(header[f.H_WORKER]),
            workers=header[f.H_WORKERS] or None,
            opened=self.at(header[f.H_MONOTONIC]),
            last_sign=self.at(self.recording.newest() or header[f.H_MONOTONIC]),
            ended=self.at(ended) if ended else None,
            ended_how=f.ENDINGS[header[f.H_ENDED_HOW]] if header[f.H_ENDED_HOW] < len(f.ENDINGS) else "",
            alive=_is_alive(header[f.H_PID], header[f.H_STARTED]),
            loaders=frameworks.made_by(self, self._loaders()),
            fetching=self._fetching(),
            **beginning.of_process(self),
            progress=told.progress(self),
            optimizer_steps=header[f.H_STEPS],
            last_step=self.at(header[f.H_STEP_AT]) if header[f.H_STEPS] else None,
            failures=[self._failure(said) for said in self.recording.last_words()],
            cost=_seconds(header[f.H_COST_COUNT], header[f.H_COST], header[f.H_COST_MAX]),
            size=header[f.H_SIZE],
            adapters_failed=[self.recording.string(one[f.R_A]) for one in self.noted(Kind.ADAPTER_FAILED)],
            stack_signal=header[f.H_STACK_SIGNAL],
            threads_at_fork=header[f.H_FORK_THREADS] or None,
            thread_names_at_fork=self._thread_names(),
            graphs=graphs(self),
            metrics=told.metrics(self.recording, self.board, self.at),
            saved=known,
            saving=saving(self, known),
            calls=calls(self),
            compiled=compiled(self),
            collecting=collecting(self),
            loggers=loggers(self),
            crash=crash,
            crash_beside=beside,
            attempt=header[f.H_ATTEMPT],
            group=ranks.group(self),
            spans=ranks.spans(self),
            wrapped=wrapped(self),
            phases=phases(self, known, self.exactly),
            prepared=prepared(self),
            sources=sources(self),
            data_files=data_files(self),
            shards=shards(self),
            threads=threads(self),
            **frameworks.of_process(self),
            collectives=traced,
            traced=at,
            stages_now=[self._stage_now(entry) for entry in self.board if entry.kind == Kind.STAGE and entry.a],
        )

    def _beside(self, ending: str, read: Callable[[Path], T]) -> T | None:
        """What lies beside a recording adds to it: where that cannot be read, the recording still can."""
        path = self.recording.path.with_suffix(ending)
        try:
            return read(path)
        except (OSError, ValueError, RecursionError) as error:
            self.left_out.append(left_out(path, error))
            return None

    def at(self, moment: int) -> float:
        return round(self.recording.seconds(moment) - self.run_started, 3)

    def exactly(self, moment: int) -> float:
        """For what is compared with the Flight Recorder's times: a short step takes less than a millisecond."""
        return round(self.recording.seconds(moment) - self.run_started, 6)

    def noted(self, kind: int, key: int | None = None) -> list[list[int]]:
        """Notes of one kind, in the order they were written."""
        return [one for one in self.notes if one[f.R_KIND] == kind and key in (None, one[f.R_KEY])]

    def timing(self, kind: int, key: int) -> Timing:
        total = self.totals.get((kind, key))
        return _seconds(sum(total[2:]), *total) if total else Timing()

    def events(self, kind: int, key: int | None = None) -> list[list[int]]:
        """The same of frequent events, as far back as the ring goes."""
        return [one for one in self.recording.ring() if one[f.R_KIND] == kind and key in (None, one[f.R_KEY])]

    def _loaders(self) -> list[Loader]:
        described = self.noted(Kind.LOADER)
        descriptions = dict.fromkeys((one[f.R_KEY] for one in described), 0)
        descriptions.update(
            {one[f.R_KEY]: one[f.R_A] for one in described if one[f.R_A]}
        )  # 0: there was no room for it
        between = gaps(self)
        found = [self._loader(number, self.recording.told(text)) for number, text in sorted(descriptions.items())]
        return [msgspec.structs.replace(one, **between.get(one.number, {})) for one in found]

    def _loader(self, number: int, known: dict[str, Any]) -> Loader:
        since = beginning.described_since(self, number)
        lengths = [one for one in self.noted(Kind.LENGTH, number) if one[f.R_START] >= since]
        failures = self.noted(Kind.ITERATOR_FAILED, number)
        board = next((one for one in self.board if one.key == number and one.kind in LOADER_KINDS), None)
        fields = {
            "number": number,
            "dataset": known.pop("dataset_inner", None) or "",
            "passes": board.b if board else self._passes(number),
            "batches": board.c if board else self._batches(number),
            "pass_batches": board.a if board else 0,
            "optimizer_steps": board.d if board else 0,
            "now": PHASES.get(board.kind, LoaderState.UNKNOWN) if board else LoaderState.UNKNOWN,
            "now_since": self.at(board.since) if board else 0.0,
            "waits": self.timing(Kind.WAIT, number),
            "first_waits": self.timing(Kind.FIRST_WAIT, number),
            "bodies": self.timing(Kind.BODY, number),
            "starts": self.timing(Kind.ITERATOR, number),
            "shutdowns": self.timing(Kind.SHUTDOWN, number),
            **self._skipped(number),
            "recent_waits": self._recent(number),
            "arrived": self._arrived(number),
            "dataset_length": max((one[f.R_A] for one in lengths), default=0) - 1,
            "length": lengths[-1][f.R_B] - 1 if lengths else None,
            "failed": self.recording.string(failures[-1][f.R_B]) if failures else None,
            **of_loader(self, number),
            **beginning.of_loader(self, number),
            "sampling": sampling(self, number),
            "pids": [one[f.R_A] for one in self.noted(Kind.WORKER, number) if one[f.R_START] >= since][-256:],
        }
        if fields["dataset_length"] == -1:
            fields["dataset_length"] = None
        wanted = {
            name: value for name, value in known.items() if name in Loader.__struct_fields__ and value is not None
        }
        return msgspec.convert({**wanted, **fields}, Loader, strict=False, from_attributes=True)

    def _passes(self, number: int) -> int:
        """Of a loader that found no room on the board, beside so many others: as far as its notes go."""
        return max((one[f.R_A] for one in self.noted(Kind.ITERATOR, number)), default=0)

    def _batches(self, number: int) -> int:
        ended = sum(one[f.R_A] for one in self.noted(Kind.PASS_END, number))
        return max(ended, len(self.recording.events(Kind.WAIT, number)))

    def _fetching(self) -> list[Fetching]:
        loaders = sorted(key for kind, key in self.totals if kind == Kind.FETCH)
        return [self._fetching_for(number) for number in loaders]

    def _fetching_for(self, number: int) -> Fetching:
        board = next((one for one in self.board if one.key == number and one.kind in FETCH_KINDS), None)
        return Fetching(
            loader=number,
            batches=board.a if board else 0,
            samples=board.b if board else 0,
            fetches=self.timing(Kind.FETCH, number),
            sample_times=self.timing(Kind.SAMPLE, number),
            collates=self.timing(Kind.COLLATE, number),
            cpu=self.timing(Kind.FETCH_CPU, number),
            cpu_of=self.timing(Kind.FETCH_TIMED, number),
            idle=self.timing(Kind.IDLE, number),
            handovers=self.timing(Kind.HANDOVER, 0),
            now=FETCHES.get(board.kind, FetchState.UNKNOWN) if board else FetchState.UNKNOWN,
            now_since=self.at(board.since) if board else 0.0,
            index=_index(board) if board and board.kind in (Kind.SAMPLE, Kind.COLLATE) else None,
            **of_fetching(self, number),
            held_back=beginning.held_back(self, number),
        )

    def _skipped(self, number: int) -> dict[str, Any]:
        """Batches before the first optimizer step, and those passed over, as far back as the ring goes."""
        first = min((one[f.R_START] for one in self.noted(Kind.OPTIMIZER)), default=0)
        rows = self.recording.events(Kind.WAIT, number)
        early = rows[:, f.R_START] < first
        for one in self.noted(Kind.SKIPPING, number):
            early |= (rows[:, f.R_START] >= one[f.R_START]) & (rows[:, f.R_A] < one[f.R_A])
        rows = rows[early & (rows[:, f.R_A] > 0)]
        waited, bodies = int(rows[:, f.R_DURATION].sum()), int(rows[:, f.R_C].sum())
        skipped = Timing(count=len(rows), total=waited / 1e9) if len(rows) else Timing()
        return {"skipped": skipped, "skipped_bodies": bodies / 1e9}

    def _recent(self, number: int) -> list[float]:
        rows = self.recording.events(Kind.WAIT, number)
        if not len(rows):
            return []
        newest = rows[(rows[:, f.R_B] == rows[:, f.R_B].max()) & (rows[:, f.R_A] > 0)]
        return [round(one / 1e9, 6) for one in newest[-RECENT:, f.R_DURATION].tolist()]

    def _arrived(self, number: int) -> list[tuple[int, float]]:
        """Only a rank can be ahead of what it waits for."""
        if self.recording.header[f.H_WORLD] < 2:
            return []
        rows = self.recording.events(Kind.WAIT, number)[-RECENT:]
        came = rows[:, f.R_START] + rows[:, f.R_DURATION]
        return [(of, self.exactly(at)) for of, at in zip(rows[:, f.R_B].tolist(), came.tolist(), strict=True)]

    def _thread_names(self) -> list[str]:
        text = self.recording.string(self.recording.header[f.H_FORK_NAMES])
        return msgspec.json.decode(text, type=list[str]) if text else []

    def _stage_now(self, entry: Entry) -> StageNow:
        return StageNow(name=self.recording.string(entry.key), item=entry.text, since=self.at(entry.since))

    def _failure(self, said: dict[str, Any]) -> Failure:
        """What is not as it should be is a ValueError: the recording is damaged, or was written by another version."""
        told = msgspec.convert(said, _Said, strict=False)
        wanted = {
            name: value for name, value in said.items() if name in Failure.__struct_fields__ and value is not None
        }
        size, free = told.shm or (None, None)
        causes = [(one.type, one.message) for one in told.causes or ()]
        fields = {"at": self.at(told.at), "causes": causes, "shm_size": size, "shm_free": free}
        return msgspec.convert({**wanted, **fields}, Failure, strict=False)


def node_of(path: Path) -> str:
    return encodable(path.name.rsplit(".", 4)[0])


def _less_one(word: int) -> int | None:
    return word - 1 if word else None


def _index(entry: Entry) -> int | str | None:
    if entry.text:
        return entry.text
    return None if entry.c == NOTHING else entry.c


def _seconds(count: int, total: int, longest: int, *buckets: int) -> Timing:
    return Timing(
        count=count,
        total=total / 1e9,
        longest=longest / 1e9,
        p50=quantile(buckets, 0.50, longest),
        p95=quantile(buckets, 0.95, longest),
        p99=quantile(buckets, 0.99, longest),
    )


def _is_alive(pid: int, started: int) -> bool:
    """Whether this very process still runs here: a pid alone may have been given away."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return int(stat[19]) == started and stat[0] not in (b"Z", b"X") and os.path.exists(f"/proc/{pid}")
