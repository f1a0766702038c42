"""A run folder: what was run, and every recording in it. It may be anybody's: no file in it is taken for what it says.

What cannot be read is left out and told, one line for each, and the rest is still read.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..errors import UserError
from ..evidence import Exit, Run
from ..evidence.loader import Loader
from ..evidence.process import Process
from ..inside.core.run_folder import kind_of
from ..safe_files import NotPlainError, read_plain, refuse_link
from ..wording.left_out import encodable, left_out
from .decoder import LARGEST, Unfinished
from .loaders import Waits, waits_of, with_spikes
from .process import exits_of, process_of
from .reader import Facts, Recording

LARGEST_RUN = 8 << 20  # bytes of run.json: a command line is at most two of them
MOST = 10_000  # recordings: of 1,000 ranks with eight workers each
LONGEST = 16 << 30  # bytes of all of them: of as many, with a line about every sample, which takes most
SECONDS = 60.0  # of computing: 9,000 honest ones take ten
KEPT = 40 << 20  # bytes of all evidence from them, as JSON: of as many it is 15 MB. In memory it takes six times that
TOLD = 20  # files that are named one by one as left out
Key = tuple[str, int, float]  # node, pid, and when its recording began


class Recorded(msgspec.Struct, frozen=True):
    """All recordings of a run, and the exits that parents among them saw."""

    processes: list[Process]
    exits: list[Exit]
    unreadable: list[str]


def run_of(folder: Path) -> Run:
    """The run's description, or a clear word on why this is no run folder."""
    file = folder / "run.json"
    try:
        return msgspec.json.decode(read_plain(file, largest=LARGEST_RUN), type=Run)
    except FileNotFoundError:
        if (folder / "recordings").is_dir():
            return _described_by_recordings(folder)
        remedy = "name a folder such as unstuck-runs/NAME, as `unstuck run` prints it"
        raise UserError(f"{folder} is not a run folder: it has no run.json", remedy) from None
    except NotPlainError as error:
        raise UserError(str(error), "copy the run folder again") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file} cannot be read ({error})", "copy the run folder again") from error


def _described_by_recordings(folder: Path) -> Run:
    """A run that was switched on from inside and whose watcher never came up."""
    started = min((seen.st_ctime for _, seen in _files(folder)), default=0.0)
    return Run(id=encodable(folder.name), folder=encodable(str(folder)), started=started)


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Each recording once: where it is written, or as it was brought home."""
    names: set[str] = set()
    for place in (*_on_a_local_disk(folder), folder / "recordings"):
        try:
            refuse_link(place)
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.name.endswith(".rec") and entry.name not in names:
                        names.add(entry.name)
                        yield entry.path, entry.stat(follow_symlinks=False)
        except OSError:
            continue


def _on_a_local_disk(folder: Path) -> Iterator[Path]:
    """Where this node writes the recordings of a run whose own folder lies on a network file system."""
    try:
        local = Path(os.fsdecode(read_plain(folder / f"recordings-{os.uname().nodename}.at", largest=4096)))
        if kind_of(str(local)) == "recordings" and local.stat().st_uid in (folder.stat().st_uid, os.geteuid()):
            yield local
    except (OSError, ValueError):
        return


class Found:
    """Recordings of a folder that may be worth opening, in the order of their names, and a word on all the others."""

    def __init__(self, folder: Path) -> None:
        self.paths: list[Path] = []
        self._left_out: list[str] = []
        self._count = 0
        seen: set[tuple[int, int]] = set()
        size = 0
        try:
            refuse_link(folder / "recordings")
        except NotPlainError as error:
            self.leave_out(left_out(folder / "recordings", error))
        for path, about in sorted(_files(folder)):
            identity = about.st_dev, about.st_ino
            if stat.S_ISREG(about.st_mode) and identity in seen:
                self.leave_out(f"{path} is left out: it is another name of a recording that was read")
            elif len(self.paths) == MOST:
                self.leave_out(f"{path} is left out: {MOST:,} recordings were read")
            elif size + about.st_size > LONGEST and about.st_size <= LARGEST:  # a larger one is told when it is opened
                self.leave_out(f"{path} is left out: {size >> 30:,} GiB of recordings were read")
            elif not stat.S_ISREG(about.st_mode) or about.st_size:  # an empty one was never begun
                self.paths.append(Path(path))
                size += about.st_size if about.st_size <= LARGEST else 0
            seen.add(identity)

    def leave_out(self, reason: str) -> None:
        self._count += 1
        if self._count <= TOLD:
            self._left_out.append(encodable(reason))

    def told(self) -> list[str]:
        more = self._count - TOLD
        return [*self._left_out, f"{more:,} more files were left out"] if more > 0 else self._left_out


def _key(process: Process) -> Key:
    """A pid is given to one process after another: when its recording began tells them apart."""
    return process.node, process.pid, process.opened


def recordings_of(folder: Path, run: Run) -> Recorded:
    processes: list[Process] = []
    exits: list[Exit] = []
    waits: dict[tuple[Key, int], Waits] = {}
    paths: dict[Key, Path] = {}
    found, room, until = Found(folder), KEPT, time.process_time() + SECONDS
    for path in found.paths:
        if time.process_time() > until:
            found.leave_out(f"{path} is left out: reading the others took {SECONDS:.0f} s")
            continue
        try:
            facts = Facts(Recording(path), run.started)
            process = process_of(facts)
            noted = exits_of(facts)
            weight = _weight(process, noted)
            if weight > room:
                found.leave_out(f"{path} is left out: more is known of the others than of any run")
                continue
            room -= weight
            waits |= {(_key(process), number): one for number, one in _waits(facts, process)}
        except Unfinished:
            continue
        except UserError as error:
            found.leave_out(str(error))
            continue
        except Exception as error:  # noqa: BLE001  (whatever is wrong with one file, the others are still read)
            found.leave_out(left_out(path, error))
            continue
        for reason in facts.left_out:
            found.leave_out(reason)
        processes.append(process)
        paths[_key(process)] = path
        exits += noted
    if waits:
        children: dict[tuple[str, int], list[Process]] = {}
        for process in processes:
            children.setdefault((process.node, process.parent), []).append(process)
        processes = [_with_spikes(process, waits, children, paths) for process in processes]
    processes = _with_ranks(processes)
    return Recorded(processes=processes, exits=exits, unreadable=found.told())


def _weight(process: Process, exits: list[Exit]) -> int:
    """What it takes to keep it. A text that cannot be encoded counts as well."""
    try:
        return len(msgspec.json.encode((process, exits)))
    except UnicodeEncodeError:
        return len(repr((process, exits)))


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
    waits: dict[tuple[Key, int], Waits],
    children: dict[tuple[str, int], list[Process]],
    paths: dict[Key, Path],
) -> Process:
    """What its loaders' long waits were for stands in the recordings of their workers."""

    def reading(worker: Process) -> Recording | None:
        try:
            return Recording(paths[_key(worker)])
        except (Unfinished, UserError):
            return None

    def added(loader: Loader) -> Loader:
        found = waits.get((_key(main), loader.number))
        if found is None:
            return loader
        mine = children.get((main.node, main.pid), [])
        return with_spikes(loader, found, [one for one in mine if one.pid in loader.pids], reading)

    return msgspec.structs.replace(main, loaders=[added(one) for one in main.loaders])
