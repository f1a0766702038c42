"""The clock for a run that could not be recorded: it knows no progress, only whether anything moves at all."""

from __future__ import annotations

from ..evidence.live import Stall
from ..probes import kernel, tree

EVERY = 2.0  # seconds between two looks at /proc
RESTING = 0.03  # of a core: what waiting costs that asks again and again


class LivenessClock:
    """Stands in for the stall clock while no process of the command has a recording."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._training: int | None = None
        self._moved: float | None = None
        self._used: dict[int, tuple[float, tuple[int, int]]] = {}
        self._looked = 0.0

    @property
    def training(self) -> int | None:
        """A process of the command that runs torch."""
        return self._training

    def tick(self, now: float) -> None:
        if now - self._looked < EVERY:
            return
        passed, self._looked = now - self._looked, now
        used = {pid: seen for pid in self._family() if (seen := self._used_by(pid)) is not None}
        if self._training is None:
            self._training = next((pid for pid in used if kernel.maps_torch(pid)), None)
        if self._training is not None and (self._moved is None or self._moves(used, passed)):
            self._moved = now
        self._used = used

    def _family(self) -> list[int]:
        return tree.Tree().below(self._pid)

    def _used_by(self, pid: int) -> tuple[float, tuple[int, int]] | None:
        """By its main thread: loggers and heartbeats have threads of their own, and live on in a run that hangs."""
        seen = kernel.stat(pid, pid)
        return None if seen is None else (seen.cpu, kernel.moved(pid, pid))

    def _moves(self, used: dict[int, tuple[float, tuple[int, int]]], passed: float) -> bool:
        if used.keys() != self._used.keys():
            return True
        cpu = sum(now[0] - self._used[pid][0] for pid, now in used.items())
        return cpu > RESTING * passed * max(len(used), 1) or any(
            now[1] != self._used[pid][1] for pid, now in used.items()
        )

    def moved(self) -> float | None:
        return self._moved

    def stall(self, now: float, age: float, patience: float) -> Stall | None:
        if self._moved is None or self._training is None:
            return None
        return Stall(
            rank=None,
            pid=self._training,
            since=round(age - (now - self._moved), 3),
            seconds=round(now - self._moved, 3),
            doing="standing",
            patience=patience,
        )
