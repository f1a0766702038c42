"""Questions that several rules ask of the evidence."""

from __future__ import annotations

from .evidence import Evidence, Exit, Host, Memory
from .owners import owner_of
from .phrases import many
from .places import Place
from .recorded import Failure, Loader, Process

LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3", "/torchinductor_")
SIGKILL = -9
STARTING = "starting the iterator"
COMMAND = "command"  # the role of one that never imported torch


def user_line(failure: Failure) -> Place | None:
    """The innermost line that is the user's own; the innermost of all if none is."""
    for frame in reversed(failure.frames):
        if is_users(frame):
            return frame
    return failure.frames[-1] if failure.frames else None


def is_users(place: Place | None) -> bool:
    return place is not None and not any(part in place.file for part in LIBRARY) and not place.file.startswith("<")


def abnormal_worker_exits(evidence: Evidence) -> list[tuple[Exit, Process]]:
    """Workers that ended by a signal or a code while their loop still ran, the first to go first, each once.

    Workers that are told to go when the main process is already leaving come later and say nothing.
    """
    found: dict[int, tuple[Exit, Process]] = {}
    for seen in sorted(evidence.exits or (), key=lambda one: one.at):
        worker = evidence.process(seen.pid) or _unrecorded_worker(evidence, seen.pid)
        if worker is None or worker.role != "worker" or seen.status == 0 or seen.pid in found:
            continue
        if worker.ended is None:
            found[seen.pid] = (seen, worker)
    return list(found.values())


def _unrecorded_worker(evidence: Evidence, pid: int) -> Process | None:
    """A worker that died before it could open a recording is still known to its parent."""
    owner = owner_of(evidence, pid)
    if owner is None:
        return None
    main = owner.main
    return Process(node=main.node, pid=pid, parent=main.pid, role="worker", rank=main.rank, worker=owner.number)


def unrecorded_command(evidence: Evidence, pid: int) -> Process | None:
    """The command itself, if this is its pid and nothing of it is recorded."""
    if evidence.recording is not None or pid != evidence.run.pid:
        return None
    return Process(node=evidence.run.host, pid=pid, parent=0, role=COMMAND)


def oom_kills(host: Host) -> dict[str, tuple[int, int]]:
    """Counters of the OOM killer that moved during the run: from, to. The machine's own counts where no cgroup does."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for sample in host.samples:
        last.update(sample.oom_kills)
        first = {**sample.oom_kills, **first}
    moved = {name: (first[name], last[name]) for name in first if last[name] > first[name]}
    groups = {name: counts for name, counts in moved.items() if name != "machine"}
    return groups if any(name != "machine" for name in first) else moved


def last_memory(host: Host, pid: int) -> Memory | None:
    """What a process held in the last sample that saw it."""
    for sample in reversed(host.samples):
        for memory in sample.processes:
            if memory.pid == pid:
                return memory
    return None


def host_of(evidence: Evidence, process: Process) -> Host | None:
    hosts = evidence.host or []
    return next((one for one in hosts if one.node == process.node), hosts[0] if len(hosts) == 1 else None)


def training_loaders(evidence: Evidence) -> list[tuple[Process, Loader]]:
    """Loaders whose batches were trained on."""
    return [(one, loader) for one in evidence.mains() for loader in one.loaders if loader.optimizer_steps > 0]


def loaders_in_use(evidence: Evidence) -> list[tuple[Process, Loader]]:
    """Loaders that were trained on; where nothing is trained, as in a trial of a loader, those that gave batches."""
    trained = training_loaders(evidence)
    if trained or any(one.optimizer_steps for one in evidence.mains()):
        return trained
    return [(one, loader) for one in evidence.mains() for loader in one.loaders if loader.batches]


def workers_of(evidence: Evidence, main: Process, loader: Loader) -> list[Process]:
    pids = set(loader.pids)
    return [
        one for one in evidence.recording or () if one.role == "worker" and one.pid in pids and one.node == main.node
    ]


def loader_name(loader: Loader) -> str:
    """The loader as its user knows it: by the line that made it."""
    dataset = loader.dataset.rpartition(".")[2] or "its dataset"
    kind = "torchdata Loader" if loader.type.startswith("torchdata.nodes") else "DataLoader"
    if loader.created is None:
        return f"the {kind} over {dataset}"
    return f"the {kind} over {dataset} ({loader.created.file.rpartition('/')[2]}:{loader.created.line})"


def newest_loader(process: Process) -> Loader | None:
    """The loader that the process had to do with last."""
    return max(process.loaders, key=lambda loader: loader.now_since, default=None)


def reached(loader: Loader) -> str:
    """How far a loader came on its way: made, iterator started, first batch, further batches."""
    name = loader_name(loader)
    if loader.now == STARTING:
        reason = f": {loader.failed}" if loader.failed else ""
        return f"{name} was made, but its iterator was not{reason}"
    if not loader.passes:
        return f"{name} was made, but not iterated over"
    if not loader.batches:
        return f"the iterator of {name} was made, but no batch came from it"
    return f"{many(loader.batches, 'batch')} had come from {name}, in {many(loader.passes, 'pass')}"
