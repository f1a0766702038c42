"""Who is who in a run: by its recording where there is one, else by what the kernel and the stacks show."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..evidence.live import Frame, Seen, Stack
from ..evidence.process import Process
from . import kernel, processes

WORKER_NAME = "pt_data_worker"  # torch names the threads of its workers so, from 2.6 on
SPAWNED = ("--multiprocessing-fork", "multiprocessing.spawn", "multiprocessing.forkserver")
BOOKKEEPERS = ("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker", "multiprocessing.forkserver")
GROUP_THREADS = ("gloo_", "pt_gloo", "pt_nccl", "pt_mpi", "pt_ucc")  # threads of a process group, by name
SPAWN = "torch/multiprocessing/spawn.py"
# Rank, local rank, world size, as launchers name them.
VARIABLES = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
)


def assign(seen: Sequence[Seen], stacks: Sequence[Stack], recorded: Sequence[Process]) -> list[Seen]:
    """The same processes with their roles, ranks and workers' numbers."""
    known = {one.pid: one for one in recorded if one.alive or any(one.pid == other.pid for other in seen)}
    calls = {one.pid: one.calls for one in stacks if one.is_main}
    commands = {one.pid: one.command for one in seen}
    found: list[Seen] = []
    for one in seen:
        role = _role(one, commands, calls.get(one.pid, []))
        found.append(_with_rank(one, role, known.get(one.pid), calls.get(one.pid, [])))
    return _ranks_from_parents(_with_world(_with_first(_with_launchers(found))))


def _role(seen: Seen, commands: dict[int, list[str]], calls: list[Frame]) -> str:
    if any(part in word for part in BOOKKEEPERS for word in seen.command):
        return "helper"
    if _worker_loop(calls) is not None or seen.name == WORKER_NAME:
        return "worker"
    if not processes.is_python(seen.pid) and not calls:
        return "helper"
    if processes.is_launcher(seen.pid) or _waits_for_spawned(calls):
        return "launcher"
    if _started_by_multiprocessing(seen, commands) and not _has_group(seen) and _spawned_rank(calls) is None:
        return "main" if kernel.environment(seen.pid).get("RANK") and not _forked(seen, commands) else "child"
    return "main"


def _has_group(seen: Seen) -> bool:
    """It takes part in a process group: only then are these threads there, and a fork does not take them along."""
    return any(task.name.startswith(GROUP_THREADS) for task in seen.tasks)


def _spawned_rank(calls: list[Frame]) -> int | None:
    """Its number among what torch.multiprocessing.spawn started."""
    frame = next((one for one in calls if one.name == "_wrap" and SPAWN in one.file), None)
    number = frame.locals.get("i", "") if frame is not None else ""
    return int(number) if number.isdigit() else None


def _waits_for_spawned(calls: list[Frame]) -> bool:
    """It has started ranks and waits for their end, though they may be gone by the time they are looked at."""
    return any(one.name == "join" and SPAWN in one.file for one in calls)


def _with_launchers(seen: list[Seen]) -> list[Seen]:
    """Who only started the ranks is none of them."""
    parents = {one.parent for one in seen if one.role == "main" and one.rank is not None}
    return [
        msgspec.structs.replace(one, role="launcher", rank=None, world=None)
        if one.role == "main" and one.pid in parents and not _has_group(one)
        else one
        for one in seen
    ]


def _with_first(seen: list[Seen]) -> list[Seen]:
    """The first rank, where it has started the others itself, as Lightning does: nobody has told it anything."""
    started = {one.parent: one for one in seen if one.role == "main" and one.rank and one.world}
    known = any(one.rank == 0 for one in seen if one.role == "main")
    return [
        msgspec.structs.replace(one, rank=0, local_rank=0, world=started[one.pid].world)
        if one.role == "main" and one.rank is None and one.pid in started and _has_group(one) and not known
        else one
        for one in seen
    ]


def _with_world(seen: list[Seen]) -> list[Seen]:
    """Where nobody tells how many ranks there are: as many as are seen with a group."""
    ranks = [one for one in seen if one.role == "main" and one.rank is not None and _has_group(one)]
    if len(ranks) < 2 or any(one.world is not None for one in ranks):
        return seen
    return [msgspec.structs.replace(one, world=len(ranks)) if one in ranks else one for one in seen]


def _worker_loop(calls: list[Frame]) -> Frame | None:
    return next((one for one in calls if one.name == "_worker_loop" and "torch/utils/data" in one.file), None)


def _forked(seen: Seen, commands: dict[int, list[str]]) -> bool:
    return seen.parent in commands and seen.command == commands[seen.parent] and bool(seen.command)


def _started_by_multiprocessing(seen: Seen, commands: dict[int, list[str]]) -> bool:
    return _forked(seen, commands) or any(part in word for part in SPAWNED for word in seen.command)


def _with_rank(seen: Seen, role: str, process: Process | None, calls: list[Frame]) -> Seen:
    variables = kernel.environment(seen.pid) if role in ("main", "worker", "child") else {}
    loop = _worker_loop(calls)
    number = loop.locals.get("worker_id", "") if loop else ""
    worker = int(number) if number.isdigit() else None
    spawned = any(part in word for part in SPAWNED for word in seen.command)
    rank, local_rank, world = _told(variables)
    if role == "main" and rank is None:
        rank = local_rank = _own_number(seen, calls)
    changes: dict[str, object] = {
        "role": role,
        "rank": rank,
        "local_rank": local_rank,
        "world": world,
        "worker": worker if role == "worker" else None,
        "forked": role in ("worker", "child") and not spawned,
    }
    if process is not None and process.role != "other":
        changes |= {"role": process.role, "rank": process.rank, "world": process.world}
        changes["worker"] = process.worker if process.worker is not None else worker
    return msgspec.structs.replace(seen, **changes)


def _told(variables: dict[str, str]) -> tuple[int | None, int | None, int | None]:
    """One task of Slurm's is no distributed run: sbatch sets its variables, too."""
    for rank, local_rank, world in VARIABLES:
        size = _number(variables, world)
        if _number(variables, rank) is not None and (rank == "RANK" or (size or 1) > 1):
            return _number(variables, rank), _number(variables, local_rank), size
    local = _number(variables, "LOCAL_RANK")
    if local is not None and _number(variables, "NODE_RANK") == 0:  # of Lightning: on the first node they are the same
        return local, local, _number(variables, "WORLD_SIZE")
    return None, None, None


def _own_number(seen: Seen, calls: list[Frame]) -> int | None:
    """As its spawner counts, or, in a process group, as the outermost function says that has a rank."""
    spawned = _spawned_rank(calls)
    if spawned is not None or not _has_group(seen):
        return spawned
    told = [one.locals[name] for one in reversed(calls) for name in ("global_rank", "rank") if name in one.locals]
    return int(told[0]) if told and told[0].isdigit() else None


def _ranks_from_parents(seen: list[Seen]) -> list[Seen]:
    """A worker has the rank of the process that it works for."""
    ranks = {one.pid: one.rank for one in seen}
    return [
        msgspec.structs.replace(one, rank=ranks.get(one.parent))
        if one.role in ("worker", "child") and one.rank is None
        else one
        for one in seen
    ]


def _number(variables: dict[str, str], name: str) -> int | None:
    value = variables.get(name, "")
    return int(value) if value.isdigit() else None
