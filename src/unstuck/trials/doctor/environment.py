"""The first rung: what the machine and the environment give a loader. It fails only for what is certain to break.

Also notes: the few versions of libraries that are known to be bad for loaders, each with the public thread that shows
it; and what the variables that people set for data loading really do, one true sentence each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ...evidence.trial import FAIL, PASS, Note, Rung, Settings
from ...wording.text import many, size
from ..memory import memory_free
from .ladder import Step

DESCRIPTORS = 64  # torch alone has about 20 open, each worker 4 more, each tensor on its way 1
SHM = 1 << 20  # bytes: a batch of a few images
MEMORY = 400 << 20  # bytes: import torch takes 200 MiB, and so does everything else
# Variables of other people's guides that do less than is believed; they are explained also where they are not set.
MISBELIEVED = ("PYTHONFAULTHANDLER", "CUDA_LAUNCH_BLOCKING", "TORCH_SHARING_STRATEGY")
POOLS = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"
BINDING = "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"


def rung(step: Step, settings: Settings) -> Rung:
    broken = list(failing(settings))
    status = FAIL if broken else PASS
    return Rung(step.name, step.title, status, "; ".join(broken) or summary(settings))


def failing(settings: Settings) -> list[str]:
    found = []
    if settings.descriptors is not None and settings.descriptors < DESCRIPTORS:
        found.append(
            f"a process may have {settings.descriptors} files open: workers need more (run `ulimit -n 4096` first)"
        )
    if settings.shm_free is not None and settings.shm_free < SHM:
        found.append(
            f"/dev/shm has {size(settings.shm_free)} free of {size(settings.shm_size or 0)}: workers send batches "
            "through it (a container gets more by --shm-size=8g)"
        )
    free = memory_free(settings)
    if free is not None and free < MEMORY:
        found.append(f"{size(free)} of memory are free, and importing torch alone takes {size(200 << 20)}")
    return found


def summary(settings: Settings) -> str:
    free = memory_free(settings)
    parts = [
        f"{size(settings.shm_free)} free in /dev/shm" if settings.shm_free is not None else "",
        f"{settings.descriptors:,} files" if settings.descriptors is not None else "",
        f"{size(free)} of memory" if free is not None else "",
        many(settings.processors_allowed, "CPU core") if settings.processors_allowed else "",
        settings.start_method,
        f"torch {settings.versions['torch']}" if "torch" in settings.versions else "",
    ]
    return ", ".join(one for one in parts if one)


def notes(settings: Settings) -> list[Note]:
    """Versions that are known to be bad, variables that are set, and those that do less than is believed."""
    return [*notes_on(settings.versions), *said_of(settings.variables or dict(os.environ), MISBELIEVED)]


def notes_on(versions: Mapping[str, str]) -> list[Note]:
    """Of those that are installed."""
    found = [(one, versions[one.library]) for one in KNOWN if one.library in versions]
    return [Note(f"{one.library} {version}", one.text, one.source) for one, version in found if _within(version, one)]


def said_of(environ: Mapping[str, str], also: Collection[str] = ()) -> list[Note]:
    """Of those that are set, and those named in `also` whether they are or not."""
    return [
        Note(f"{name}={environ[name]}" if name in environ else name, says(environ.get(name, "")))
        for name, says in SAYS.items()
        if name in environ or name in also
    ]


class Known(NamedTuple):
    """Versions from `first` on, up to and without `fixed`."""

    library: str
    first: str
    fixed: str
    text: str
    source: str


OPENCV = (
    "opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless",
)  # fmt: skip


KNOWN = (
    Known(
        "mkl", "2023.1.0", "2023.1.1",
        "if numpy is imported before torch, it binds the process to one CPU core, and all workers inherit that: "
        "import torch first, or install another version of mkl",
        "pytorch/pytorch#101188",
    ),
    Known(
        "torch", "2.0.0", "2.0.1",
        "default_collate and pin_memory became slow for batches with many small objects or bytes; 2.0.1 fixes it",
        "pytorch/pytorch#98348, pytorch/pytorch#98349",
    ),
    Known(
        "torch", "1.7.0", "1.8.0",
        "a loader with pin_memory=True and persistent_workers=True crashes in its second epoch: remove one of them",
        "pytorch/pytorch#48370",
    ),
    *(
        Known(
            one, "0", "3.4.3",
            "its thread pool does not survive a fork, and workers hang in cv2: call cv2.setNumThreads(0), or install a "
            "newer version",
            "pytorch/pytorch#45198",
        )
        for one in OPENCV
    ),
)  # fmt: skip


def _within(version: str, known: Known) -> bool:
    return _numbers(known.first) <= _numbers(version) < _numbers(known.fixed)


def _numbers(version: str) -> tuple[int, ...]:
    """`2.0.0+cu118` is 2.0.0; so are its release candidates, which have the same faults."""
    numbers = re.match(r"\d+(?:\.\d+)*", version.strip())
    found = [int(part) for part in numbers[0].split(".")] if numbers else []
    return tuple([*found, 0, 0, 0][: max(len(found), 3)])


def _faulthandler(_: str) -> str:
    return (
        "prints the Python stack when the main process crashes, but not for a worker: there torch replaces the handler "
        "with its own, which prints one line without a stack. A recorded run keeps the worker's stack"
    )


def _blocking(_: str) -> str:
    return (
        "makes every CUDA kernel launch wait until the kernel is done, so an error is raised at its own line; it "
        "slows training down, says nothing about loading, and does nothing without a GPU: use it only to debug"
    )


def _sharing(_: str) -> str:
    return (
        "does nothing, torch does not read it: call torch.multiprocessing.set_sharing_strategy('file_system') in the "
        "program, which uses /dev/shm as well"
    )


def _pool(value: str) -> str:
    if value.split(",")[0].strip() == "1":
        return "one thread per process: right for workers; a main process that loads by itself has one, too"
    return (
        f"{value or 'so many'} threads in every process that loads such a library, workers included (torch limits its "
        "own operations in workers to one thread by default)"
    )


def _binding(value: str) -> str:
    if value.strip().lower() == "false":
        return "binds nothing"
    return "binds a process that loads an OpenMP library (import torch is enough) to one CPU core, and all its workers"


def _kmp(_: str) -> str:
    return "binds threads of Intel's OpenMP; torch's usual wheels have GNU's OpenMP, which does not read it"


def _tokenizers(value: str) -> str:
    if value.strip().lower() in ("", "off", "false", "f", "no", "n", "0"):
        return "Hugging Face tokenizers use one thread: right with several workers"
    return (
        "Hugging Face tokenizers use threads also in forked workers, which can deadlock if the main process has used "
        "them before: false is safe"
    )


def _devices(value: str) -> str:
    if not value.strip() or value.strip().startswith("-"):
        return "hides all GPUs from this process"
    return f"this process sees the GPUs {value}, numbered from 0; workers do not need them"


def _debug_timing(_: str) -> str:
    return (
        "does nothing in torch or unstuck; only your own code may read it. UNSTUCK_SAMPLE_TIMES=1, or "
        "`unstuck run --sample-times`, writes a line about every sample"
    )


SAYS: dict[str, Callable[[str], str]] = {
    "PYTHONFAULTHANDLER": _faulthandler,
    "CUDA_LAUNCH_BLOCKING": _blocking,
    "TORCH_SHARING_STRATEGY": _sharing,
    "DEBUG_TIMING": _debug_timing,
    "TOKENIZERS_PARALLELISM": _tokenizers,
    "CUDA_VISIBLE_DEVICES": _devices,
    "KMP_AFFINITY": _kmp,
    **dict.fromkeys(POOLS, _pool),
    **dict.fromkeys(BINDING, _binding),
}
