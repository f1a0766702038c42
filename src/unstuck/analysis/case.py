"""Questions that several rules ask of the evidence."""

from __future__ import annotations

from ..evidence import Evidence, Exit, Host
from ..evidence.basics import Place
from ..evidence.loader import Loader
from ..evidence.process import Failure, Process
from ..wording.text import many

LIBRARY = ("/site-packages/", "/dist-packages/", "/lib/python3", "/torchinductor_")
CYTHON = (".pyx", ".pxi", ".pxd")  # it names them by a path in the library's own tree: pyarrow/error.pxi
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
    if place is None or place.file.startswith("<") or any(part in place.file for part in LIBRARY):
        return False
    return place.file.startswith("/") or not place.file.endswith(CYTHON)


def abnormal_worker_exits(evidence: Evidence) -> list[tuple[Exit, Process]]:
    """Workers that ended by a signal or a code while their loop still ran, the first to go first, each once.

    Workers that are told to go when the main process is already leaving come later and say nothing.
    """
    found: dict[tuple[str, int, float], tuple[Exit, Process]] = {}
    for seen in sorted(evidence.exits or (), key=lambda one: one.at):
        worker = evidence.process(seen.node, seen.pid, seen.at) or _unrecorded_worker(evidence, seen)
        if worker is not None and worker.role == "worker" and seen.status != 0 and worker.ended is None:
            found.setdefault((worker.node, worker.pid, worker.opened), (seen, worker))
    return list(found.values())


def _unrecorded_worker(evidence: Evidence, seen: Exit) -> Process | None:
    """A worker that died before it could open a recording is still known to its parent."""
    owner = evidence.owner_of(seen.node, seen.pid)
    if owner is None:
        return None
    main = owner.main
    return Process(node=main.node, pid=seen.pid, parent=main.pid, role="worker", rank=main.rank, worker=owner.number)


def unrecorded_command(evidence: Evidence, seen: Exit) -> Process | None:
    """The command itself, if this is its exit and nothing of it is recorded."""
    if evidence.recording is not None or not evidence.is_command(seen.node, seen.pid):
        return None
    return Process(node=evidence.run.host, pid=seen.pid, parent=0, role=COMMAND)


def host_of(evidence: Evidence, process: Process) -> Host | None:
    hosts = evidence.host or []
    return next((one for one in hosts if one.node == process.node), hosts[0] if len(hosts) == 1 else None)


def ended_well(evidence: Evidence, process: Process) -> bool:
    """It ended, and with status 0: what was to come did not."""
    statuses = [seen.status for seen in evidence.exits_of(process)]
    if evidence.is_command(process.node, process.pid) and evidence.run.status is not None:
        statuses.append(evidence.run.status)
    return bool(statuses) and not any(statuses)


def training_loaders(evidence: Evidence) -> list[tuple[Process, Loader]]:
    """Loaders whose batches were trained on."""
    return [(one, loader) for one in evidence.mains() for loader in one.loaders if loader.optimizer_steps > 0]


def loaders_in_use(evidence: Evidence) -> list[tuple[Process, Loader]]:
    """Loaders that were trained on; where nothing is trained, as in a trial of a loader, those that gave batches."""
    trained = training_loaders(evidence)
    if trained or any(one.optimizer_steps for one in evidence.mains()):
        return trained
    return [(one, loader) for one in evidence.mains() for loader in one.loaders if loader.batches]


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
