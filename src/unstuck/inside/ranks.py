"""Which rank this process is: by its process group, by who spawned it, or by the launcher's variables."""

from __future__ import annotations

import os

from . import format as f
from .recorder import Recorder

# Rank, local rank, world size: torchrun and what follows it, Slurm's srun, Open MPI, other MPIs.
VARIABLES = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
)
REQUEUES = 1000  # restarts by the launcher are counted anew after each


class Known:
    """What is known better than from variables. A forked worker has its parent's."""

    __slots__ = ("local_rank", "rank", "world")

    def __init__(self) -> None:
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.world: int | None = None


known = Known()


def write_rank(recorder: Recorder) -> None:
    """Into the header. It is asked for again with every pass: the variables may be set by the program itself."""
    told = _variables()
    rank, local_rank, world = (
        better if better is not None else variable
        for better, variable in zip((known.rank, known.local_rank, known.world), told, strict=True)
    )
    words = recorder.words
    if rank is not None:
        words[f.H_RANK] = rank + 1
    if local_rank is not None:
        words[f.H_LOCAL_RANK] = local_rank + 1
    if world is not None:
        words[f.H_WORLD] = world
    words[f.H_ATTEMPT] = _number("SLURM_RESTART_COUNT", 0) * REQUEUES + _number("TORCHELASTIC_RESTART_COUNT", 0)


def _variables() -> tuple[int | None, int | None, int | None]:
    """Of the first launcher that has set a rank. One task of Slurm's is no distributed run: sbatch sets that, too."""
    for rank, local_rank, world in VARIABLES:
        if os.environ.get(rank, "").isdigit():
            size = _number(world, 1)
            if rank == "RANK" or size > 1:
                return _number(rank, 0), _maybe(local_rank), size
    return None, None, None


def _maybe(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def _number(name: str, otherwise: int) -> int:
    value = _maybe(name)
    return otherwise if value is None else value
