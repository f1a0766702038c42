"""What the watchers wrote down: the machine over time, and the exits they saw."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ..model.evidence import Exit, Host, Sample
from ..model.journal import Begin, End, Glanced, Gone, Line, Look
from . import host

OLD = ".old.jsonl"  # what a journal that grew too long was renamed to
KEPT = 60  # samples per node that go into Evidence: so many newest, and as many spread over all the time before
_decoder = msgspec.json.Decoder(Line)


def look(folder: Path) -> tuple[list[Host], list[Exit]]:
    """Every node's history. Empty when no watcher ever wrote."""
    hosts, exits = [], []
    for path in sorted(folder.glob("watch-*.jsonl")):
        if path.name.endswith(OLD):
            continue
        lines = _lines(path.with_suffix(OLD)) + _lines(path)
        begins = [one for one in lines if isinstance(one, Begin)]
        if not begins:
            continue
        exits += [one.exit for one in lines if isinstance(one, Gone)]
        hosts.append(_host(begins[0], lines, folder))
    return hosts, exits


def _host(begin: Begin, lines: list[Line], folder: Path) -> Host:
    samples = [one.sample for one in lines if isinstance(one, Look)]
    ended = any(isinstance(one, End) for one in lines)
    alive = os.uname().nodename == begin.node and _holds_lock(folder, begin)
    if samples and not ended and not alive:
        samples.append(host.counters_after(samples[-1], samples[-1].at))
    return Host(
        node=begin.node,
        cpus=begin.cpus,
        granted=begin.granted,
        quota=begin.quota,
        descriptor_limit=begin.descriptor_limit,
        cgroup=begin.cgroup,
        samples=_thinned(samples),
        watcher_ended=ended,
        processes_alive=alive,
        glances=[one.glance for one in lines if isinstance(one, Glanced)],
        unrecorded=sorted(one.name for one in (folder / "recordings").glob("unrecorded-*")),
    )


def _thinned(samples: list[Sample]) -> list[Sample]:
    """Those that were looked at closely come first among the older ones."""
    older, newest = samples[:-KEPT], samples[-KEPT:]
    if len(older) <= KEPT:
        return samples
    close = [one for one in older if any(process.threads for process in one.processes)]
    older = close if len(close) >= KEPT else older
    spread = [older[number * len(older) // KEPT] for number in range(KEPT)]
    return [samples[0], *spread[1:], *newest]


def _holds_lock(folder: Path, begin: Begin) -> bool:
    """Whether that node's watcher still lives: it holds a lock for as long as it does."""
    import fcntl

    try:
        with (folder / f"watch-{begin.node}.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _lines(path: Path) -> list[Line]:
    try:
        written = path.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in written:
        try:
            found.append(_decoder.decode(line))
        except msgspec.DecodeError:  # the line the watcher was writing when it was killed
            continue
    return found
