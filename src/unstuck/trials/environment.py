"""The first rung: what the machine and the environment give a loader. It fails only for what is certain to break."""

from __future__ import annotations

import os

from ..evidence.trial import FAIL, PASS, Note, Rung, Settings
from ..wording.text import many, size
from .known_versions import notes_on
from .ladder import Step
from .variables import MISBELIEVED, said_of

DESCRIPTORS = 64  # torch alone has about 20 open, each worker 4 more, each tensor on its way 1
SHM = 1 << 20  # bytes: a batch of a few images
MEMORY = 400 << 20  # bytes: import torch takes 200 MiB, and so does everything else


def rung(step: Step, settings: Settings) -> Rung:
    broken = list(failing(settings))
    status = FAIL if broken else PASS
    return Rung(step.name, step.title, status, "; ".join(broken) or summary(settings))


def failing(settings: Settings) -> list[str]:
    found = []
    if settings.descriptors is not None and settings.descriptors < DESCRIPTORS:
        found.append(
            f"a process may have {settings.descriptors} files open: workers need more (`ulimit -n 4096` before)"
        )
    if settings.shm_free is not None and settings.shm_free < SHM:
        found.append(
            f"/dev/shm has {size(settings.shm_free)} free of {size(settings.shm_size or 0)}: workers hand batches over "
            "there (a container gets it by --shm-size=8g)"
        )
    free = memory_free(settings)
    if free is not None and free < MEMORY:
        found.append(f"{size(free)} of memory are free: importing torch alone takes {size(200 << 20)}")
    return found


def memory_free(settings: Settings) -> int | None:
    """Of the machine, or of the cgroup around us, whichever has less."""
    known = [settings.memory_available] if settings.memory_available is not None else []
    if settings.memory_limit is not None:
        known.append(max(settings.memory_limit - (settings.memory_used or 0), 0))
    return min(known, default=None)


def summary(settings: Settings) -> str:
    free = memory_free(settings)
    parts = [
        f"{size(settings.shm_free)} free in /dev/shm" if settings.shm_free is not None else "",
        f"{settings.descriptors:,} files" if settings.descriptors is not None else "",
        f"{size(free)} of memory" if free is not None else "",
        many(settings.processors_allowed, "processor") if settings.processors_allowed else "",
        settings.start_method,
        f"torch {settings.versions['torch']}" if "torch" in settings.versions else "",
    ]
    return ", ".join(one for one in parts if one)


def notes(settings: Settings) -> list[Note]:
    """Versions that are known to be bad, variables that are set, and those that do less than is believed."""
    return [*notes_on(settings.versions), *said_of(settings.variables or dict(os.environ), MISBELIEVED)]
