"""What a recording says of DataLoaders: settings, passes, first batches, what was fetched for them, long waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..evidence.basics import Timing
from ..evidence.loader import Fetching, FetchState, Handed, HeldBack, Loader, LoaderState, Pass, Spike, State
from ..evidence.process import Process
from ..inside import format as f
from ..inside.format import Kind
from .decoder import FETCH_KINDS, LOADER_KINDS, Entry
from .distributed import sampling
from .gaps import gaps
from .reader import Facts, Recording, Words

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
NOTHING = -1  # no index
RECENT = 64  # waits that are kept one by one
OUTSTANDING = 10.0  # the median wait: what is shorter belongs to the usual ups and downs
LEAST_SPIKE = 0.5  # seconds: what is shorter nobody notices
SPIKES = 10  # that are kept with their details
FILLED = 0.5  # of a wait that the fetch it was for fills at least
IDLE_SHARE = 0.5  # of a wait in which another worker fetched at most, to be called idle in it
Shares = npt.NDArray[np.float64]
Open = Callable[[Process], Recording | None]


def loaders_of(facts: Facts) -> list[Loader]:
    described = facts.noted(Kind.LOADER)
    descriptions = dict.fromkeys((one[f.R_KEY] for one in described), 0)
    descriptions.update({one[f.R_KEY]: one[f.R_A] for one in described if one[f.R_A]})  # 0: there was no room for it
    between = gaps(facts)
    found = [_loader(facts, number, facts.recording.told(text)) for number, text in sorted(descriptions.items())]
    return [msgspec.structs.replace(one, **between.get(one.number, {})) for one in found]


def _loader(facts: Facts, number: int, known: dict[str, Any]) -> Loader:
    since = _described_since(facts, number)
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
        **_data_of_loader(facts, number),
        **_first_batches(facts, number),
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


def fetching_of(facts: Facts) -> list[Fetching]:
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
        **_data_fetched(facts, number),
        held_back=_held_back(facts, number),
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


def _index(entry: Entry) -> int | str | None:
    if entry.text:
        return entry.text
    return None if entry.c == NOTHING else entry.c


def _first_batches(facts: Facts, number: int) -> dict[str, Any]:
    made, since = facts.noted(Kind.LOADER, number), _described_since(facts, number)
    early = sorted(
        (one for one in facts.noted(Kind.EARLY, number) if one[f.R_START] >= since), key=lambda one: one[f.R_A]
    )
    first = early[0] if early and not early[0][f.R_A] else None
    looks = msgspec.json.decode(facts.recording.string(first[f.R_B]) or "{}", type=dict[str, str]) if first else {}
    return {
        "made": facts.at(made[0][f.R_START]) if made else None,
        "began": _began(facts, number, since),
        "first": [one[f.R_DURATION] / 1e9 for one in early],
        "first_at": facts.at(first[f.R_START] + first[f.R_DURATION]) if first else None,
        "first_shapes": looks.get("shapes", ""),
        "first_device": looks.get("device", ""),
        "drawing": facts.timing(Kind.DRAWING, number),
    }


def _described_since(facts: Facts, number: int) -> int:
    """When the loader was first described as it is now; 0 unless its number was another loader's before.

    A program that makes loaders with ever other settings at one line has the same number for several of them: what is
    known of the workers, lengths and first batches of the ones before does not belong to this one.
    """
    notes = [one for one in facts.noted(Kind.LOADER, number) if one[f.R_A]]
    others = [at for at, one in enumerate(notes, 1) if one[f.R_A] != notes[-1][f.R_A]]
    return notes[others[-1]][f.R_START] if others else 0


def _held_back(facts: Facts, number: int) -> list[HeldBack]:
    """What a stream held back when the first batch of a pass was there."""
    found = []
    for one in facts.noted(Kind.HELD, number):
        told = msgspec.json.decode(facts.recording.string(one[f.R_B]) or "{}", type=dict[str, Any])
        if told:
            number, at = one[f.R_A], facts.at(one[f.R_START])
            found.append(msgspec.convert({**told, "number": number, "at": at}, HeldBack, strict=False))
    return found


def _began(facts: Facts, number: int, since: int) -> float | None:
    """When the first pass was asked for: the notes keep the first ones; of one that is being set up the board knows."""
    begun = [one for one in facts.noted(Kind.ITERATOR, number) if one[f.R_START] >= since]
    passes = [one[f.R_START] for one in begun if one[f.R_A] == 1]
    board = [one.since for one in facts.board if one.kind == Kind.ITERATOR and one.key == number and one.b == 1]
    found = passes or board
    return facts.at(min(found)) if found else None


def _data_of_loader(facts: Facts, number: int) -> dict[str, Any]:
    """What the main process tells of one of its loaders."""
    sent = facts.noted(Kind.SENT, number)
    return {
        "ended": [
            Pass(number=one[f.R_B], batches=one[f.R_A], at=facts.at(one[f.R_START]))
            for one in facts.noted(Kind.PASS_END, number)
        ],
        "states": _states(facts, number),
        "resumed": [facts.at(one[f.R_START]) for one in facts.noted(Kind.RESUMED, number)],
        "sent": sent[-1][f.R_A] if sent else 0,
    }


def _data_fetched(facts: Facts, number: int) -> dict[str, Any]:
    """What a process tells of what it fetched for a loader. In a main process, states are the loader's."""
    return {
        "handed": [_handed(facts, one) for one in facts.noted(Kind.HANDED, number)],
        "digests": [facts.decoded(one[f.R_C], list[int]) for one in facts.noted(Kind.DIGESTS, number)],
        "dropped": sum(one[f.R_A] for one in facts.noted(Kind.DROPPED, number)),
        "states": _states(facts, number) if number == 0 else [],
    }


class _Numbers(msgspec.Struct):
    numbers: dict[str, int] = {}
    generators: dict[str, str] = {}


def _states(facts: Facts, number: int) -> list[State]:
    """Told before the first batch of a pass; after it, only what has changed."""
    notes = facts.noted(Kind.STATE, number)
    drawn = {one[f.R_A]: facts.decoded(one[f.R_C], _Numbers).generators for one in notes if one[f.R_B]}
    found = []
    for one in notes:
        if one[f.R_B]:
            continue
        told, after = facts.decoded(one[f.R_C], _Numbers), drawn.get(one[f.R_A])
        generators = {
            name: (state, "" if after is None else after.get(name, state)) for name, state in told.generators.items()
        }
        at = facts.at(one[f.R_START])
        found.append(State(at=at, number=one[f.R_A], numbers=told.numbers, generators=generators))
    return found


def _handed(facts: Facts, one: list[int]) -> Handed:
    return Handed(
        at=facts.at(one[f.R_START]),
        batch=one[f.R_DURATION],
        tensors=one[f.R_A],
        size=one[f.R_B],
        storage=one[f.R_C],
    )


class Waits(msgspec.Struct, frozen=True):
    """One loader's waits that stand out: the longest first, each with the time in the run at which it began."""

    longest: list[tuple[float, list[int]]]
    spiked: float
    looped: float


def waits_of(recording: Recording, loader: Loader, at: Callable[[int], float]) -> Waits | None:
    """None: none stands out. The first batch of a pass is another matter: everything is started for it."""
    rows = recording.events(Kind.WAIT, loader.number)
    later = rows[rows[:, f.R_A] > 0]
    if not len(later) or loader.num_workers < 2:
        return None
    times = later[:, f.R_DURATION] / 1e9
    out = times > max(LEAST_SPIKE, OUTSTANDING * float(np.median(times)))
    if not out.any():
        return None
    spikes = later[out]
    longest = spikes[np.argsort(spikes[:, f.R_DURATION])[::-1]][:SPIKES].tolist()
    looped = float(times.sum() + later[:, f.R_C].sum() / 1e9)
    return Waits([(at(row[f.R_START]), row) for row in longest], float(times[out].sum()), looped)


def with_spikes(loader: Loader, waits: Waits, workers: list[Process], reading: Open) -> Loader:
    """`reading` opens a worker's recording again."""
    opened = [(one, found) for one in workers if (found := reading(one)) is not None]
    fetches = [(one, found, found.events(Kind.FETCH)) for one, found in opened]
    crews = [_crew(loader, workers, at) for at, _ in waits.longest]
    spikes = [
        _spike(at, row, [one for one in fetches if one[0].pid in crew])
        for (at, row), crew in zip(waits.longest, crews, strict=True)
    ]
    return msgspec.structs.replace(loader, spikes=spikes, spiked=waits.spiked, spiked_of=waits.looped)


def _crew(loader: Loader, workers: list[Process], at: float) -> list[int]:
    """Workers of the iterator that was waited for: the newest that were started by then. Those before it are gone."""
    born = {one.pid: one.started if one.started is not None else one.opened for one in workers}
    for end in range(len(loader.pids), 0, -loader.num_workers):
        pids = loader.pids[max(end - loader.num_workers, 0) : end]
        if min((born[pid] for pid in pids if pid in born), default=at + 1) <= at:
            return pids
    return []


def _spike(at: float, row: list[int], fetches: list[tuple[Process, Recording, Words]]) -> Spike:
    start, end = row[f.R_START], _end(row)
    spike = Spike(at=at, seconds=(end - start) / 1e9, batch=row[f.R_A])
    shares = [_overlaps(rows, start, end) for _, _, rows in fetches]
    # Of those that fill the wait and were done before it ended, the last: another slow one may go on beyond it.
    done = [
        (_end(fetch), number, fetch)
        for number, (_, _, rows) in enumerate(fetches)
        for fetch in rows[shares[number] >= FILLED].tolist()
        if _end(fetch) <= end
    ]
    if not done:
        return spike
    _, number, fetch = max(done)
    worker, recording, _ = fetches[number]
    index, seconds = _slowest(recording, fetch)
    return msgspec.structs.replace(
        spike,
        worker=worker.worker,
        pid=worker.pid,
        fetch_seconds=fetch[f.R_DURATION] / 1e9,
        index=index,
        sample_seconds=seconds,
        idle=sum(_idles(shares[at], rows, end) for at, (_, _, rows) in enumerate(fetches) if at != number),
    )


def _end(fetch: list[int]) -> int:
    return fetch[f.R_START] + fetch[f.R_DURATION]


def _overlaps(rows: Words, start: int, end: int) -> Shares:
    """What part of the time from start to end each fetch fills."""
    begins = rows[:, f.R_START].astype(np.int64)
    ends = begins + rows[:, f.R_DURATION].astype(np.int64)
    shares: Shares = np.maximum(np.minimum(ends, end) - np.maximum(begins, start), 0) / (end - start)
    return shares


def _idles(shares: Shares, rows: Words, end: int) -> bool:
    """One that has fetched nothing before only starts, or its records are gone: it is not called idle."""
    return bool(shares.sum() < IDLE_SHARE and (rows[:, f.R_START] < end).any())


def _slowest(recording: Recording, fetch: list[int]) -> tuple[int | None, float]:
    """The sample of this fetch that took longest."""
    rows = recording.events(Kind.SAMPLE)
    mine = rows[(rows[:, f.R_START] >= fetch[f.R_START]) & (rows[:, f.R_START] < _end(fetch))]
    if not len(mine):
        return None, 0.0
    row = mine[int(mine[:, f.R_DURATION].argmax())].tolist()
    index = row[f.R_A]
    return (None if index == f.MASK else index), row[f.R_DURATION] / 1e9
