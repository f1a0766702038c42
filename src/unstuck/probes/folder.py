"""A run folder: what was run, and every recording in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..errors import UserError
from ..inside import format as f
from ..model.evidence import Exit, Run
from ..model.recorded import Loader, Process
from ..recordings.facts import Facts
from ..recordings.reader import Recording, Unfinished
from ..recordings.spikes import Waits, waits_of, with_spikes

EXITS = {f.EXIT_REAPED: "reaped", f.EXIT_PEEKED: "peeked"}


class Recorded(msgspec.Struct, frozen=True):
    """All recordings of a run, and the exits that parents among them saw."""

    processes: list[Process]
    exits: list[Exit]
    unreadable: list[str]


def run_of(folder: Path) -> Run:
    """The run's description, or a clear word on why this is no run folder."""
    file = folder / "run.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Run)
    except FileNotFoundError:
        if (folder / "recordings").is_dir():
            return _described_by_recordings(folder)
        remedy = "name a folder such as unstuck-runs/NAME, as `unstuck run` prints it"
        raise UserError(f"{folder} is not a run folder: it has no run.json", remedy) from None
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{file} cannot be read ({error})", "copy the run folder again") from error


def _described_by_recordings(folder: Path) -> Run:
    """A run that was switched on from inside and whose watcher never came up."""
    started = min((one.stat().st_ctime for one in (folder / "recordings").glob("*.rec")), default=0.0)
    return Run(id=folder.name, folder=str(folder), started=started)


def recordings_of(folder: Path, run: Run) -> Recorded:
    processes: list[Process] = []
    exits: list[Exit] = []
    unreadable: list[str] = []
    waits: dict[tuple[str, int, int], Waits] = {}
    paths: dict[tuple[str, int], Path] = {}
    for path in sorted((folder / "recordings").glob("*.rec")):
        try:
            facts = Facts(Recording(path), run.started)
            process = facts.process()
            waits |= {(process.node, process.pid, number): one for number, one in _waits(facts, process)}
        except Unfinished:
            continue
        except UserError as error:
            unreadable.append(str(error))
            continue
        except (msgspec.ValidationError, msgspec.DecodeError, KeyError, ValueError) as error:
            unreadable.append(f"{path} holds something this version cannot read ({error}); the rest is still read")
            continue
        processes.append(process)
        paths[process.node, process.pid] = path
        exits += [_exit(facts, one, process.pid) for one in facts.noted(f.Kind.EXIT)]
    processes = [_with_spikes(one, waits, processes, paths) for one in processes] if waits else processes
    processes = _with_ranks(processes)
    return Recorded(processes=processes, exits=exits, unreadable=unreadable)


def _with_ranks(processes: list[Process]) -> list[Process]:
    """A worker that was not told has the rank of the process it works for."""
    mains = {(one.node, one.pid): one for one in processes if one.role == "main"}
    owners = {(one.node, pid): one for one in processes for loader in one.loaders for pid in loader.pids}

    def told(one: Process) -> Process:
        owner = owners.get((one.node, one.pid)) or mains.get((one.node, one.parent))
        if one.role != "worker" or one.rank is not None or owner is None:
            return one
        return msgspec.structs.replace(one, rank=owner.rank, local_rank=owner.local_rank, world=owner.world)

    return [told(one) for one in processes]


def _waits(facts: Facts, process: Process) -> list[tuple[int, Waits]]:
    found = [(one.number, waits_of(facts.recording, one, facts.at)) for one in process.loaders]
    return [(number, one) for number, one in found if one is not None]


def _with_spikes(
    main: Process,
    waits: dict[tuple[str, int, int], Waits],
    processes: list[Process],
    paths: dict[tuple[str, int], Path],
) -> Process:
    """What its loaders' long waits were for stands in the recordings of their workers."""

    def reading(worker: Process) -> Recording | None:
        try:
            return Recording(paths[worker.node, worker.pid])
        except (Unfinished, UserError):
            return None

    def added(loader: Loader) -> Loader:
        found = waits.get((main.node, main.pid, loader.number))
        if found is None:
            return loader
        mine = [one for one in processes if (one.node, one.parent) == (main.node, main.pid)]
        return with_spikes(loader, found, [one for one in mine if one.pid in loader.pids], reading)

    return msgspec.structs.replace(main, loaders=[added(one) for one in main.loaders])


def _exit(facts: Facts, record: list[int], by: int) -> Exit:
    status = record[f.R_B]
    signed = status - (1 << 64) if status >> 63 else status
    at = facts.at(record[f.R_START])
    return Exit(pid=record[f.R_A], status=signed, at=at, how=EXITS.get(record[f.R_C], "reaped"), by=by)
