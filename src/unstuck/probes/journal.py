"""What the watchers wrote down: the machine over time, and the exits they saw."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from ..evidence import Exit, Host, Sample
from ..evidence.journal import Begin, End, Glanced, Gone, Heard, Line, Look
from ..safe_files import open_plain, read_plain
from ..wording.left_out import encodable, left_out
from . import host

LARGEST = 8 << 20  # bytes of one journal: it is set aside long before
NODES, TOLD = 1024, 20  # journals that are read, and of those that cannot be, how many are named
MANY = 256  # processes that could not be recorded, by name
OLD = ".old.jsonl"  # what a journal that grew too long was renamed to
KEPT = 60  # samples per node that go into Evidence: so many newest, and as many spread over all the time before
_decoder = msgspec.json.Decoder(Line)


class Journals(msgspec.Struct, frozen=True):
    """Every node's history. Empty when no watcher ever wrote."""

    hosts: list[Host]
    exits: list[Exit]
    unreadable: list[str]


def look(folder: Path) -> Journals:
    hosts: list[Host] = []
    exits: list[Exit] = []
    unreadable: list[str] = []
    paths = sorted(path for path in folder.glob("watch-*.jsonl") if not path.name.endswith(OLD))
    if len(paths) > NODES:
        unreadable.append(f"{len(paths) - NODES:,} journals of watchers are left out: {NODES:,} were read")
    for path in paths[:NODES]:
        lines: list[Line] = []
        for part in (path.with_suffix(OLD), path):
            found, left = _lines(part)
            lines += found
            unreadable += left[: max(TOLD - len(unreadable), 0)]
        begins = [one for one in lines if isinstance(one, Begin)]
        if not begins:
            continue
        exits += [msgspec.structs.replace(one.exit, node=begins[0].node) for one in lines if isinstance(one, Gone)]
        hosts.append(_host(begins[0], lines, folder))
    return Journals(hosts, exits, unreadable)


def _host(begin: Begin, lines: list[Line], folder: Path) -> Host:
    samples = [one.sample for one in lines if isinstance(one, Look)]
    ended = any(isinstance(one, End) for one in lines)
    held = _holds_lock(folder, begin) if os.uname().nodename == begin.node else None
    alive = held is True
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
        signals=[one.told for one in lines if isinstance(one, Heard)],
        broke_off=held is False and not ended,
        unrecorded=sorted(encodable(one.name) for one in (folder / "recordings").glob("unrecorded-*"))[:MANY],
    )


def _thinned(samples: list[Sample]) -> list[Sample]:
    """Those that were looked at closely come first among the older ones. When an OOM kill was counted stays known."""
    older, newest = samples[:-KEPT], samples[-KEPT:]
    if len(older) <= KEPT:
        return samples
    close = [number for number, one in enumerate(older) if any(process.threads for process in one.processes)]
    some = close if len(close) >= KEPT else range(len(older))
    kept = {0, *(some[number * len(some) // KEPT] for number in range(1, KEPT))}
    killed = [number for number in range(1, len(older)) if older[number].oom_kills != older[number - 1].oom_kills]
    kept |= {near for number in killed[-KEPT:] for near in (number - 1, number)}
    return [*(older[number] for number in sorted(kept)), *newest]


def _holds_lock(folder: Path, begin: Begin) -> bool | None:
    """Whether that node's watcher still lives: it holds a lock for as long as it does. None: it cannot be known."""
    if "/" in begin.node:
        return None
    try:
        with os.fdopen(open_plain(folder / f"watch-{begin.node}.lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a shared one: another reader is no watcher
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _lines(path: Path) -> tuple[list[Line], list[str]]:
    """What can be read, and a word on what cannot. The last line may be half: a watcher that is killed leaves it so."""
    try:
        written = read_plain(path, largest=LARGEST).split(b"\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [left_out(path, error)]
    found, bad = [], 0
    for number, line in enumerate(written, 1):
        try:
            if line:
                found.append(_decoder.decode(line))
        except (ValueError, RecursionError):
            bad += number < len(written)
    watchers = sum(isinstance(one, Begin) for one in found)  # each that was killed has left half a line
    return found, [f"{encodable(str(path))} is damaged: {bad:,} of its lines are left out"] if bad > watchers else []
