"""The collectives that a rank has called, as its answer tells them: a file beside its recording."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from ..evidence.basics import Place
from ..evidence.distributed import Collective
from ..safe_files import open_plain

DEFAULT = ("default_pg", "0")  # names of the group that all ranks are in
LARGEST = 4 << 20  # bytes: 256 entries take a twentieth of that


class _Entry(msgspec.Struct):
    """As inside/flight.py writes it."""

    sequence: int = 0
    p2p: bool = False
    operation: str = ""
    created: int = 0
    state: str = ""
    retired: bool = False
    group: list[str] = []
    sizes: list[Any] = []
    timeout_ms: float = 0
    line: Place | None = None
    calls: str = ""


def collectives(flight: Path, run_started: float) -> tuple[list[Collective], float | None]:
    """What the Flight Recorder had when it was last asked, and when that was. None: it never was.

    Raises OSError or ValueError where that cannot be read.
    """
    try:
        with os.fdopen(open_plain(flight, largest=LARGEST), "rb") as file:
            entries = msgspec.json.decode(file.read(LARGEST), type=list[_Entry])
            taken = os.fstat(file.fileno()).st_mtime - run_started
        return [_collective(one, run_started) for one in entries if not one.p2p], round(taken, 3)
    except FileNotFoundError:
        return [], None


def _collective(one: _Entry, run_started: float) -> Collective:
    """On gloo `retired` tells that it is finished, `state` never changes. On NCCL an entry may be either."""
    return Collective(
        sequence=one.sequence,
        operation=one.operation.partition(":")[2] or one.operation,
        at=round(one.created / 1e9 - run_started, 6),
        finished=one.retired or one.state == "completed",
        group="" if any(name in DEFAULT for name in one.group) else "/".join(one.group),
        sizes=[[size for size in shape if isinstance(size, int)] for shape in one.sizes if isinstance(shape, list)],
        where=one.line,
        calls=one.calls,
        timeout=one.timeout_ms / 1e3 or None,
    )
