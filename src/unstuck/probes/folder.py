"""A run folder: what was run, and every recording in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..errors import UserError
from ..inside import format as f
from ..model.evidence import Exit, Process, Run
from ..recordings.facts import Facts
from ..recordings.reader import Recording, Unfinished

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
    for path in sorted((folder / "recordings").glob("*.rec")):
        try:
            facts = Facts(Recording(path), run.started)
            process = facts.process()
        except Unfinished:
            continue
        except UserError as error:
            unreadable.append(str(error))
            continue
        except (msgspec.ValidationError, msgspec.DecodeError, KeyError, ValueError) as error:
            unreadable.append(f"{path} holds something this version cannot read ({error}); the rest is still read")
            continue
        processes.append(process)
        exits += [_exit(facts, one, process.pid) for one in facts.noted(f.Kind.EXIT)]
    return Recorded(processes=processes, exits=exits, unreadable=unreadable)


def _exit(facts: Facts, record: list[int], by: int) -> Exit:
    status = record[f.R_B]
    signed = status - (1 << 64) if status >> 63 else status
    at = facts.at(record[f.R_START])
    return Exit(pid=record[f.R_A], status=signed, at=at, how=EXITS.get(record[f.R_C], "reaped"), by=by)
