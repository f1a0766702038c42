"""Remedies that make room, for the rules of this family: a higher memory limit, a larger /dev/shm."""

from __future__ import annotations

from ...analysis.case import Case
from ...analysis.memory import NEAR
from ...evidence import Host, Sample
from ...evidence.finding import Remedy
from ...wording.text import size

GIB = 1 << 30
USUAL_SHM = 8 * GIB  # enough for most trainings
SMALL_SHM = 4 * GIB  # below: the usual size is the next step, above: twice as much is
SETTINGS = {
    "Slurm": "Slurm: --mem",
    "Kubernetes": "Kubernetes: resources.limits.memory",
    "": "docker run --memory, Kubernetes resources.limits.memory, Slurm --mem",
}


def limit(host: Host) -> int | None:
    """Of the smallest memory cgroup, as it was last seen. None: there is no limit but the machine's memory."""
    return next((sample.limit for sample in reversed(host.samples) if sample.limit), None)


def reached(host: Host) -> str:
    """Which limit an OOM kill was about, as the end of a cause."""
    last = limit(host)
    below = any(sample.limit and (sample.used or 0) >= NEAR * sample.limit for sample in host.samples)
    machine = any(sample.total and sample.available <= (1 - NEAR) * sample.total for sample in host.samples)
    if last is None or (machine and not below):
        return "the machine ran out of memory"
    return f"the memory limit of {size(last)} was reached"


def higher_limit(case: Case, host: Host, above: float = 0) -> Remedy:
    """Raise the limit that there is, by the setting that this scheduler has for it."""
    last = limit(host)
    than = f" above {size(above)}" if above else ""
    if last is None:
        return Remedy(f"Use a machine with more memory: {size(above)} or more." if above else "Use a larger machine.")
    setting = SETTINGS.get(case.run.scheduler, SETTINGS[""])
    return Remedy(f"Raise the memory limit of {size(last)}{than} ({setting}).")


def larger_shm(case: Case, host: Host | None, total: int | None) -> list[Remedy]:
    """Ways to enlarge /dev/shm to a sensible size. None of them where it has as much as this machine can give."""
    wanted = _wanted_shm(host.samples[-1] if host is not None and host.samples else None, total or 0)
    if not wanted:
        return []
    count, unit = (wanted // GIB, "G") if wanted >= GIB else (wanted >> 20, "M")
    mounted = "Mount an emptyDir with medium: Memory at /dev/shm"
    if case.run.scheduler == "Kubernetes":
        return [Remedy(f"{mounted} (sizeLimit: {count}{unit}i).")]
    remount = Remedy("Enlarge /dev/shm, outside a container.", [f"sudo mount -o remount,size={count}{unit} /dev/shm"])
    docker = f"Start the container with --shm-size={count}{unit.lower()} or --ipc=host"
    return [Remedy(f"{docker}; in Kubernetes, {mounted[:1].lower()}{mounted[1:]}."), remount]


def _wanted_shm(sample: Sample | None, total: int) -> int:
    """At most half of the memory that can be had: its pages count as memory in use. 0: it has that much already."""
    wanted = USUAL_SHM if total < SMALL_SHM else 2 * total
    if sample is not None and sample.total:
        wanted = min(wanted, min(sample.total, sample.limit or sample.total) // 2)
    wanted = wanted // GIB * GIB if wanted >= GIB else wanted >> 20 << 20
    return wanted if wanted > total else 0
