"""What the variables that people set for data loading really do: one true sentence each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ..evidence.trial import Note

# Variables of other people's guides that do less than is believed; they are explained also where they are not set.
MISBELIEVED = ("PYTHONFAULTHANDLER", "CUDA_LAUNCH_BLOCKING", "TORCH_SHARING_STRATEGY")
POOLS = "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"
BINDING = "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"


def said_of(environ: Mapping[str, str], also: Collection[str] = ()) -> list[Note]:
    """Of those that are set, and those named in `also` whether they are or not."""
    return [
        Note(f"{name}={environ[name]}" if name in environ else name, says(environ.get(name, "")))
        for name, says in SAYS.items()
        if name in environ or name in also
    ]


def _faulthandler(_: str) -> str:
    return (
        "prints the Python stack when the main process crashes; not for a worker, where torch replaces the handler "
        "with its own, which prints one line without a stack: a recorded run keeps the worker's stack"
    )


def _blocking(_: str) -> str:
    return (
        "makes every CUDA kernel launch wait until the kernel is done, so that an error is raised at its own line; it "
        "slows training down, says nothing about loading, and does nothing without a GPU: not for every day"
    )


def _sharing(_: str) -> str:
    return (
        "does nothing: torch does not read it; only torch.multiprocessing.set_sharing_strategy('file_system') in the "
        "program acts, and that uses /dev/shm as well"
    )


def _pool(value: str) -> str:
    if value.split(",")[0].strip() == "1":
        return "one thread for each process: right for workers; a process that loads by itself computes with one, too"
    return (
        f"{value or 'so many'} threads in every process that loads such a library, workers included (torch keeps its "
        "own operations in workers to one thread, unless told otherwise)"
    )


def _binding(value: str) -> str:
    if value.strip().lower() == "false":
        return "binds nothing"
    return "binds whoever loads an OpenMP library (import torch is enough) to one processor, and so all its workers"


def _kmp(_: str) -> str:
    return "binds threads of Intel's OpenMP; torch's usual wheels have GNU's, which does not read it"


def _tokenizers(value: str) -> str:
    if value.strip().lower() in ("", "off", "false", "f", "no", "n", "0"):
        return "tokenizers of Hugging Face compute with one thread: right with several workers"
    return (
        "tokenizers of Hugging Face compute with threads also in forked workers, which can deadlock where the main "
        "process has used them before: false is safe"
    )


def _devices(value: str) -> str:
    if not value.strip() or value.strip().startswith("-"):
        return "hides all GPUs from this process"
    return f"this process sees the GPUs {value}, counted anew from 0; workers need none of them"


def _debug_timing(_: str) -> str:
    return (
        "is read by your own code or by nobody: neither torch nor unstuck knows it; UNSTUCK_SAMPLE_TIMES=1, or "
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
