"""How busy the GPU of a training process was, and whether that can be known at all.

NVML lists the processes that hold memory of a GPU, by pids of the host. In a container these are none, or unknown: then
the rate of the device counts, if nobody else can be seen on it. Written against NVML's documentation; not tried on a
machine that has a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

from ..evidence import Sample
from ..evidence.finding import Certainty
from ..evidence.live import Gpu
from ..evidence.process import Process
from .case import Case

GPU_BUSY, GPU_IDLE = 0.9, 0.7  # of the time, by a GPU: it is the limit, or something else is
CPU, CUDA = "cpu", "cuda"
VISIBLE = "CUDA_VISIBLE_DEVICES"


class GpuUse(NamedTuple):
    """Of one process while it trained."""

    busy: float | None = None  # share of the time; None: it trains on no GPU, or it is not known
    unknown: str = ""  # why it is not known

    @property
    def words(self) -> list[str]:
        return [f"GPU use unknown: {self.unknown}"] if self.unknown else []

    @property
    def certainty(self) -> str:
        """Of a finding that a busy GPU would refute; empty: as its rule says."""
        return Certainty.POSSIBLE.value if self.unknown else ""


def gpu_use(case: Case, main: Process) -> GpuUse:
    seen = [one for sample in samples_of(case, main) if _trains(main, sample.at) for one in sample.gpus]
    own = [one for one in seen if main.pid in one.processes]
    if own:
        return _rate(own)
    if not main.device.startswith(CUDA):
        other = main.device not in ("", CPU)
        return GpuUse(unknown=f"{main.device} has no utilisation rate that can be read here" if other else "")
    if not seen:
        return GpuUse(unknown="no utilisation rate can be read here, as with ROCm")
    number = _number(main, {one.number for one in seen})
    if number is None:
        return GpuUse(unknown=f"which of the {len({one.number for one in seen})} GPUs it uses is not known")
    mine = [one for one in seen if one.number == number]
    return _rate(mine) if _owns(case, main, mine) else GpuUse(unknown=f"other processes use GPU {number}, too")


def samples_of(case: Case, main: Process) -> list[Sample]:
    return [sample for host in case.host or () if host.node == main.node for sample in host.samples]


def _trains(main: Process, at: float) -> bool:
    began = main.first_step if main.first_step is not None else main.opened
    return began <= at <= main.last_sign


def _rate(gpus: list[Gpu]) -> GpuUse:
    known = [one.busy for one in gpus if one.busy is not None]
    if not known:
        return GpuUse(unknown=f"GPU {gpus[0].number} has no utilisation rate, as with MIG")
    return GpuUse(sum(known) / len(known))


def _number(main: Process, there: set[int]) -> int | None:
    """NVML's number of the device that the process calls `cuda:1`."""
    if len(there) == 1:
        return next(iter(there))
    _, _, index = main.device.partition(":")
    at = int(index) if index.isdecimal() else 0
    told = main.threads.variables.get(VISIBLE) if main.threads is not None else None
    if told is None:
        return at if at in there else None
    names = [one.strip() for one in told.split(",")]
    number = int(names[at]) if at < len(names) and names[at].isdecimal() else None  # else it is named by its UUID
    return number if number in there else None


def _owns(case: Case, main: Process, gpus: list[Gpu]) -> bool:
    """No process is listed there, or as many as this run has there, under pids that are not known in a container."""
    here = [one for one in case.mains if one.node == main.node]
    listed = {pid for one in gpus for pid in one.processes}
    if listed & {one.pid for one in here}:
        return False  # pids are known, and this process is not among them
    mine = [one for one in here if one.device == main.device and _visible(one) == _visible(main)]
    return max(len(one.processes) for one in gpus) <= len(mine)


def _visible(process: Process) -> str | None:
    return process.threads.variables.get(VISIBLE) if process.threads is not None else None
