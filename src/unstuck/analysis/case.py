"""One indexed view of the evidence of a run: the only way in to every question that needs more than one record."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import msgspec

from ..evidence import Evidence, Exit, Host
from ..evidence.basics import Place
from ..evidence.finding import Finding, Remedy, Subject
from ..evidence.loader import Loader, LoaderState
from ..evidence.process import Failure, Process
from ..wording.text import many

LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3", "/torchinductor_")
CYTHON = (".pyx", ".pxi", ".pxd")  # it names them by a path in the library's own tree: pyarrow/error.pxi
SIGKILL = -9
VERSION = re.compile(r"\d+")
COMMAND = "command"  # the role of one that never imported torch

T = TypeVar("T")
OF_ABOUT: Any = object()  # not given: it is that of the process the finding is about


class About(Protocol):
    """What a finding is about: a process, recorded or seen, or a machine. It may have a rank, a worker and a pid."""

    @property
    def node(self) -> str | None: ...


class Owner(NamedTuple):
    """The main process and loader that a worker works for, and which of its workers it is."""

    main: Process
    loader: Loader
    number: int


class Case:
    """The evidence of one run, indexed once for all rules that judge it.

    A process is who it is by node and pid: nodes and containers have equal pids, and a pid is given to one process
    after another. An empty node stands for all of them: older evidence does not say where an exit was seen.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.run = evidence.run
        self.recording = evidence.recording
        self.attempts = evidence.attempts
        self.exits = evidence.exits
        self.host = evidence.host
        self.processes = evidence.processes
        self.stacks = evidence.stacks
        self.samples = evidence.samples
        self.gpus = evidence.gpus
        self.stall = evidence.stall
        self.trial = evidence.trial
        self.data = evidence.data
        self.looked_at = evidence.looked_at
        self.unreadable = evidence.unreadable
        self._worked_out: dict[object, object] = {}

    def worked_out(self, work: Callable[[Case], T]) -> T:
        """What `work` makes of this case, worked out the first time that anybody asks."""
        if work not in self._worked_out:
            self._worked_out[work] = work(self)
        return cast("T", self._worked_out[work])

    # Processes

    @cached_property
    def _processes(self) -> dict[tuple[str, int], list[Process]]:
        """By node and pid, and by pid alone; the oldest first."""
        known: dict[tuple[str, int], list[Process]] = {}
        for process in sorted(self.recording or (), key=lambda process: process.opened):
            for node in {process.node, ""}:
                known.setdefault((node, process.pid), []).append(process)
        return known

    def process(self, node: str, pid: int, at: float | None = None) -> Process | None:
        """The process with this pid on this node: the newest, or the one that was there at that moment."""
        known = self._processes.get((node, pid), [])
        if at is None or len(known) < 2:
            return known[-1] if known else None
        return next((process for process in reversed(known) if process.opened <= at), known[0])

    def on_node(self, node: str) -> list[Process]:
        return self._by_node.get(node, [])

    @cached_property
    def _by_node(self) -> dict[str, list[Process]]:
        known: dict[str, list[Process]] = {}
        for process in self.recording or ():
            known.setdefault(process.node, []).append(process)
        return known

    @cached_property
    def mains(self) -> list[Process]:
        return [process for process in self.recording or () if process.role == "main"]

    @cached_property
    def ranks(self) -> list[Process]:
        """Main processes that take part in a distributed run, by rank."""
        ranked = [process for process in self.mains if process.rank is not None and (process.world or 1) > 1]
        return sorted(ranked, key=lambda process: process.rank or 0)

    def is_command(self, node: str, pid: int) -> bool:
        """Whether this is the command itself that `unstuck run` started."""
        return pid == self.run.pid and (not node or not self.run.host or node == self.run.host)

    def unrecorded_command(self, seen: Exit) -> Process | None:
        """The command itself, if this is its exit and nothing of it is recorded."""
        if self.recording is not None or not self.is_command(seen.node, seen.pid):
            return None
        return Process(node=self.run.host, pid=seen.pid, parent=0, role=COMMAND)

    # Workers and their loaders

    @cached_property
    def _owners(self) -> dict[tuple[str, int], Owner]:
        owners: dict[tuple[str, int], Owner] = {}
        for main in sorted(self.recording or (), key=lambda process: (process.role == "main", process.opened)):
            for loader in main.loaders:
                numbers = {pid: number % max(loader.num_workers, 1) for number, pid in enumerate(loader.pids)}
                for node in {main.node, ""}:
                    owners |= {(node, pid): Owner(main, loader, number) for pid, number in numbers.items()}
        return owners

    def owner_of(self, node: str, pid: int) -> Owner | None:
        """The main process and loader that a worker belongs to. Its parent may be a fork server."""
        return self._owners.get((node, pid))

    def workers_of(self, main: Process, loader: Loader) -> list[Process]:
        """Those of its workers that have a recording."""
        known = [self._processes.get((main.node, pid), []) for pid in dict.fromkeys(loader.pids)]
        return [process for same in known for process in same if process.role == "worker"]

    @cached_property
    def training_loaders(self) -> list[tuple[Process, Loader]]:
        """Loaders whose batches were trained on."""
        return [(main, loader) for main in self.mains for loader in main.loaders if loader.optimizer_steps > 0]

    @cached_property
    def loaders_in_use(self) -> list[tuple[Process, Loader]]:
        """Loaders that were trained on; where nothing is trained, as in a trial, those that gave batches."""
        if self.training_loaders or any(main.optimizer_steps for main in self.mains):
            return self.training_loaders
        return [(main, loader) for main in self.mains for loader in main.loaders if loader.batches]

    # Ends

    @cached_property
    def _exits(self) -> dict[tuple[str, int], list[Exit]]:
        known: dict[tuple[str, int], list[Exit]] = {}
        for seen in sorted(self.exits or (), key=lambda seen: seen.at):
            known.setdefault((seen.node, seen.pid), []).append(seen)
        return known

    def exits_of(self, process: Process) -> list[Exit]:
        """In order of time: its parent and the watcher may both have seen it end."""
        found = sorted(
            self._exits.get((process.node, process.pid), []) + self._exits.get(("", process.pid), []),
            key=lambda seen: seen.at,
        )
        same = self._processes.get((process.node, process.pid), [])
        if len(same) < 2:
            return found
        later = [other.opened for other in same if other.opened > process.opened]
        return [seen for seen in found if process.opened <= seen.at < min(later, default=float("inf"))]

    def exit_of(self, process: Process) -> Exit | None:
        return next(iter(self.exits_of(process)), None)

    def ended_well(self, process: Process) -> bool:
        """It ended, and with status 0: what was to come did not."""
        statuses = [seen.status for seen in self.exits_of(process)]
        if self.is_command(process.node, process.pid) and self.run.status is not None:
            statuses.append(self.run.status)
        return bool(statuses) and not any(statuses)

    @cached_property
    def abnormal_worker_exits(self) -> list[tuple[Exit, Process]]:
        """Workers that ended by a signal or a code while their loop still ran, the first to go first, each once.

        Workers that are told to go when the main process is already leaving come later and say nothing.
        """
        found: dict[tuple[str, int, float], tuple[Exit, Process]] = {}
        for seen in sorted(self.exits or (), key=lambda seen: seen.at):
            worker = self.process(seen.node, seen.pid, seen.at) or self._unrecorded_worker(seen)
            if worker is not None and worker.role == "worker" and seen.status != 0 and worker.ended is None:
                found.setdefault((worker.node, worker.pid, worker.opened), (seen, worker))
        return list(found.values())

    def _unrecorded_worker(self, seen: Exit) -> Process | None:
        """A worker that died before it could open a recording is still known to its parent."""
        owner = self.owner_of(seen.node, seen.pid)
        if owner is None:
            return None
        main = owner.main
        return Process(
            node=main.node, pid=seen.pid, parent=main.pid, role="worker", rank=main.rank, worker=owner.number
        )

    # Machines

    def host_of(self, process: Process) -> Host | None:
        hosts = self.host or []
        if len(hosts) == 1:
            return hosts[0]
        return self._hosts.get(process.node)

    @cached_property
    def _hosts(self) -> dict[str, Host]:
        return {host.node: host for host in reversed(self.host or [])}

    # Findings

    def has(self, library: str, *least: int) -> bool | None:
        """Whether the run uses this version of a library or a newer one. None: that is not known."""
        told = next((one.versions[library] for one in self.mains if library in one.versions), "")
        known = [int(part) for part in VERSION.findall(told)[: len(least)]]
        return tuple(known) >= least if len(known) == len(least) else None

    def from_version(self, library: str, *least: int, remedy: Remedy) -> list[Remedy]:
        """A way out that needs a version: none where the run's is older. Where that is not known, it says so."""
        has = self.has(library, *least)
        if has is None:
            needs = f" ({library} {'.'.join(map(str, least))} or later)"
            text = remedy.text.removesuffix(".") + needs + "." * remedy.text.endswith(".")
            return [msgspec.structs.replace(remedy, text=text)]
        return [remedy] if has else []

    def finding(
        self,
        about: About | None = None,
        *,
        cause: str,
        seen: list[str],
        remedy: Remedy,
        alternatives: Sequence[Remedy] = (),
        where: Place | None = None,
        subject: Subject | None = None,
        node: str | None = OF_ABOUT,
        rank: int | None = OF_ABOUT,
        worker: int | None = OF_ABOUT,
        pid: int | None = OF_ABOUT,
        onset_s: float | None = None,
        symptom: str = "",
        certainty: str = "",
        share: float | None = None,
        because_of: str | None = None,
        saw: str = "",
    ) -> Finding:
        """A cause, and who it is about: node, rank, worker and pid are those of the process, unless they are given."""
        return Finding(
            cause=cause,
            seen=seen,
            remedy=remedy,
            alternatives=list(alternatives),
            saw=saw,
            node=getattr(about, "node", None) if node is OF_ABOUT else node,
            rank=getattr(about, "rank", None) if rank is OF_ABOUT else rank,
            worker=getattr(about, "worker", None) if worker is OF_ABOUT else worker,
            pid=getattr(about, "pid", None) if pid is OF_ABOUT else pid,
            onset_s=onset_s,
            where=where,
            subject=subject,
            symptom=symptom,
            certainty=certainty,
            share=share,
            because_of=because_of,
        )


def once(work: Callable[[Case], T]) -> Callable[[Case], T]:
    """A conclusion that is worked out once for each case, whoever asks. Nobody may change what it gives."""

    @wraps(work)
    def known(case: Case) -> T:
        return case.worked_out(work)

    return known


def user_line(failure: Failure) -> Place | None:
    """The innermost line that is the user's own; the innermost of all if none is."""
    for frame in reversed(failure.frames):
        if is_users(frame):
            return frame
    return failure.frames[-1] if failure.frames else None


def is_users(place: Place | None) -> bool:
    if place is None or place.file.startswith("<") or any(part in place.file for part in LIBRARY):
        return False
    return place.file.startswith("/") or not place.file.endswith(CYTHON)


def doing_with(loader: Loader) -> str:
    """What the main thread did with it last, in a sentence's own words. Empty: it does not show."""
    words = {LoaderState.IN_BODY: "inside a training step", LoaderState.BETWEEN_PASSES: "between two epochs"}
    return words.get(loader.now, str(loader.now))


def reached(loader: Loader) -> str:
    """How far a loader came on its way: made, iterator started, first batch, further batches."""
    name = loader.name
    if loader.now == LoaderState.STARTING:
        reason = f": {loader.failed}" if loader.failed else ""
        return f"{name} was made, but its iterator was not{reason}"
    if not loader.passes:
        return f"{name} was made, but not iterated over"
    if not loader.batches:
        return f"the iterator of {name} was made, but no batch came from it"
    return f"{many(loader.batches, 'batch')} from {name}, in {many(loader.passes, 'epoch')}"
