"""Who is who in a run: by its recording where there is one, else by what the kernel and the stacks show."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..model.look import Frame, Seen, Stack
from ..model.recorded import Process
from . import kernel, tree

WORKER_NAME = "pt_data_worker"  # torch names the threads of its workers so, from 2.6 on
SPAWNED = ("--multiprocessing-fork", "multiprocessing.spawn", "multiprocessing.forkserver")
BOOKKEEPERS = ("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker", "multiprocessing.forkserver")


def assign(seen: Sequence[Seen], stacks: Sequence[Stack], recorded: Sequence[Process]) -> list[Seen]:
    """The same processes with their roles, ranks and workers' numbers."""
    known = {one.pid: one for one in recorded if one.alive or any(one.pid == other.pid for other in seen)}
    calls = {one.pid: one.calls for one in stacks if one.is_main}
    commands = {one.pid: one.command for one in seen}
    found: list[Seen] = []
    for one in seen:
        role = _role(one, commands, calls.get(one.pid, []))
        found.append(_with_rank(one, role, known.get(one.pid), calls.get(one.pid, [])))
    return _ranks_from_parents(found)


def _role(seen: Seen, commands: dict[int, list[str]], calls: list[Frame]) -> str:
    if any(part in word for part in BOOKKEEPERS for word in seen.command):
        return "helper"
    if _worker_loop(calls) is not None or seen.name == WORKER_NAME:
        return "worker"
    if not tree.is_python(seen.pid) and not calls:
        return "helper"
    if tree.is_launcher(seen.pid):
        return "launcher"
    if _started_by_multiprocessing(seen, commands):
        return "main" if kernel.environment(seen.pid).get("RANK") and not _forked(seen, commands) else "child"
    return "main"


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
    changes: dict[str, object] = {
        "role": role,
        "rank": _number(variables, "RANK"),
        "local_rank": _number(variables, "LOCAL_RANK"),
        "world": _number(variables, "WORLD_SIZE"),
        "worker": worker if role == "worker" else None,
        "forked": role in ("worker", "child") and not spawned,
    }
    if process is not None and process.role != "other":
        changes |= {"role": process.role, "rank": process.rank, "world": process.world}
        changes["worker"] = process.worker if process.worker is not None else worker
    return msgspec.structs.replace(seen, **changes)


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
