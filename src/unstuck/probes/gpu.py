"""NVIDIA GPUs and who uses them. Written against NVML's documentation; not tried on a machine that has one."""

from __future__ import annotations

import os
from typing import Any

from ..evidence.live import Gpu

DRIVERS = ("/proc/driver/nvidia", "/dev/dxg")


class Watched:
    """Asked again and again for as long as a run lasts: the driver is opened once, and let go if it does not answer."""

    def __init__(self) -> None:
        self._opened = any(os.path.exists(one) for one in DRIVERS)
        self._pynvml: Any = None

    def look(self) -> list[Gpu]:
        if not self._opened:
            return []
        import pynvml

        try:
            if self._pynvml is None:
                pynvml.nvmlInit()
                self._pynvml = pynvml
            return [_gpu(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError:
            self._opened = False
            return []


def look() -> list[Gpu] | None:
    """Every GPU of this machine. None: there is none, or its driver does not answer."""
    if not any(os.path.exists(one) for one in DRIVERS):
        return None
    import pynvml  # large, and of no use where there is no driver

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        return [_gpu(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def _gpu(pynvml: Any, number: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(number)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    try:
        used = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    except pynvml.NVMLError:  # a slice of a shared GPU has no rate of its own
        used = None
    try:
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:
        running = []
    return Gpu(
        number=number,
        busy=None if used is None else used / 100,
        used=int(memory.used),
        total=int(memory.total),
        processes={int(one.pid): int(one.usedGpuMemory or 0) for one in running},
    )
