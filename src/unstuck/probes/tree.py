"""Finds the processes of a run from any one of them, and every training on this machine."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import NamedTuple

import psutil

from ..errors import UserError
from ..inside.run_folder import FOLDER
from . import kernel, owners

LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed")
OURS = "unstuck.watching"


class Tree:
    """Parents and children of everything that runs here, at one moment."""

    def __init__(self) -> None:
        self.parent: dict[int, int] = {}
        self.children: dict[int, list[int]] = {}
        for pid in psutil.pids():
            seen = kernel.stat(pid)
            if seen is not None:
                self.parent[pid] = seen.parent
                self.children.setdefault(seen.parent, []).append(pid)

    def above(self, pid: int) -> list[int]:
        """Its ancestors, nearest first."""
        found: list[int] = []
        while (pid := self.parent.get(pid, 0)) > 1 and pid not in found:
            found.append(pid)
        return found

    def below(self, pid: int) -> list[int]:
        """It and all that descend from it, parents first."""
        found = [pid]
        for one in found:
            found += self.children.get(one, ())
        return found


def run_of(pid: int) -> list[int]:
    """All processes of the run that this one belongs to: whatever launched it, and all below that."""
    tree = Tree()
    if pid not in tree.parent:
        raise UserError(f"there is no process {pid} on this machine", "`unstuck why` lists the trainings it can see")
    _may_look(pid)
    found = [one for one in tree.below(_top(tree, pid)) if not is_ours(one)]
    if not any(is_python(one) for one in found):
        remedy = "name the pid of a Python process; `unstuck why` lists the trainings it can see"
        raise UserError(f"process {pid} ({kernel.program(pid) or 'unknown'}) runs no Python", remedy)
    return found


def _top(tree: Tree, pid: int) -> int:
    """The uppermost process of its run: a launcher, or a training whose own code it runs as a child.

    A notebook, a test runner or a sweep may have torch in memory too. What they start by a command is a run by itself.
    """
    top = pid
    for one in tree.above(pid):
        if is_ours(one):
            break
        if is_launcher(one) or (is_training(one) and _is_part_of(top, one)):
            top = one
    return top


def _is_part_of(pid: int, other: int) -> bool:
    """Forked, which shows in the same command, or started by multiprocessing."""
    command = kernel.command(pid)
    return command == kernel.command(other) or any("multiprocessing" in word for word in command[:8])


def all_runs() -> list[list[int]]:
    """Every training that this user can see, each as its processes, the topmost first."""
    tree = Tree()
    trainings = {pid for pid in tree.parent if is_python(pid) and not is_ours(pid) and is_training(pid)}
    tops = sorted({_top(tree, pid) for pid in trainings})
    return [[one for one in tree.below(top) if not is_ours(one) and _nearest(tree, one, tops) == top] for top in tops]


def _nearest(tree: Tree, pid: int, tops: list[int]) -> int | None:
    return next((one for one in [pid, *tree.above(pid)] if one in tops), None)


def is_python(pid: int) -> bool:
    program = kernel.program(pid) or (kernel.command(pid) or [""])[0]
    return os.path.basename(program).startswith(("python", "pypy"))


def is_training(pid: int) -> bool:
    """torch is in its memory; it is not one of ours."""
    return kernel.maps_torch(pid)


def is_launcher(pid: int) -> bool:
    words = [os.path.basename(word) for word in kernel.command(pid)[:4]]
    return any(word in LAUNCHERS for word in words)


def is_ours(pid: int) -> bool:
    words = kernel.command(pid)[:3]
    return pid == os.getpid() or OURS in words or any(os.path.basename(word) == "unstuck" for word in words)


class Found(NamedTuple):
    """The folder of a recorded run, and whose process led to it: with that user's rights it is read."""

    folder: Path | None = None
    owner: owners.Owner | None = None
    refused: tuple[str, ...] = ()  # why folders were not looked for


def run_folder(pids: list[int]) -> Found:
    """Where its recordings are mapped from, or what its processes were started with."""
    refused: list[str] = []
    for owner, mine in owners.grouped(pids).items():
        try:
            folder = owners.as_owner(owner, lambda mine=mine: _folder_of(mine), str)  # type: ignore[misc]
        except owners.Refused as error:
            there = [str(pid) for pid in mine if kernel.stat(pid) is not None]
            refused += [f"files of pid {', '.join(there)} were not looked at: {error}"] if there else []
            continue
        if folder:
            return Found(Path(folder), owner, tuple(refused))
    return Found(refused=tuple(refused))


def _folder_of(pids: list[int]) -> str:
    for pid in pids:
        for path in kernel.mapped(pid, ".rec"):
            if Path(path).parent.name == "recordings" and Path(path).exists():
                return str(Path(path).parents[1])
    for pid in pids:
        folder = kernel.environment(pid).get(FOLDER, "")
        if folder and Path(folder, "recordings").is_dir():
            return folder
    return ""


def _may_look(pid: int) -> None:
    owner = kernel.status(pid).uid
    if os.geteuid() not in (0, owner):
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = str(owner)
        remedy = "look as root" if owner == 0 else f"look as {name} or as root"
        raise UserError(f"process {pid} belongs to {name}, and you may not look into it", remedy)
