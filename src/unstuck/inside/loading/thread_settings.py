"""How threads are set up here, told once; and what they could share where a launcher left one to a rank that loads.

torchrun sets OMP_NUM_THREADS=1 for every rank unless somebody has set it. Whether more threads would help depends on
the work: two batches of such a rank are fetched under a mode of torch's that times every operation.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from ..core.guard import clean, quietly
from ..core.recorder import Recorder, clock
from ..format import Kind
from ..redaction import redacted

VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES",
    "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "TOKENIZERS_PARALLELISM", "SLURM_JOB_ID", "SLURM_CPUS_PER_TASK",
    "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
ONE, ELASTIC = "OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID"
SKIPPED, LOOKED = 1, 2  # batches: the first is not like the others
LOADERS = 4  # of a process that are looked at
LONG = 100_000  # nanoseconds: torch does not share out what is shorter, or nothing is gained by it
SHOWN = 3
# What one thread does, however many there are: drawing numbers, reading, turning Python's numbers into tensors.
ALONE = ("rand", "normal", "uniform", "bernoulli", "multinomial", "exponential", "poisson", "dropout")
ALONE_TOO = {"load", "save", "tensor", "as_tensor", "from_numpy", "frombuffer", "item", "tolist", "numpy", "unique"}


class Told:
    """By recording: whether it was, and who set what. A forked child tells it again in its own."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.by_launcher: list[str] = []
        self.loaders: set[int] = set()


def pass_begins(recorder: Recorder) -> None:
    if told.recorder is recorder:
        return
    told.recorder, told.loaders = recorder, set()
    known = {name: redacted(os.environ[name])[:80] for name in VARIABLES if name in os.environ}
    told.by_launcher = [ONE] if known.get(ONE) and ELASTIC in os.environ and not _launcher_has(ONE) else []
    torch: Any = sys.modules.get("torch")
    threads = torch.get_num_threads() if hasattr(torch, "get_num_threads") else None
    facts = {"variables": known, "by_launcher": told.by_launcher, "threads": threads}
    recorder.note(Kind.THREADS, 0, clock(), 0, recorder.intern(json.dumps(facts, ensure_ascii=False)))


def _launcher_has(name: str) -> bool:
    """Whether the launcher had it when it was started itself. What cannot be read counts as set by the user."""
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            return any(one.startswith(f"{name}=".encode()) for one in file.read().split(b"\0"))
    except OSError:
        return True


def pass_begun(recorder: Recorder, number: int, iterator: Any) -> None:
    """Look at how the first batches of a loader without workers are made, if a launcher left one thread for that."""
    fetcher = getattr(iterator, "_dataset_fetcher", None)
    if fetcher is None or not told.by_launcher or os.environ.get(ONE) != "1":
        return
    if number in told.loaders or len(told.loaders) >= LOADERS:
        return
    base = getattr(sys.modules.get("torch.overrides"), "TorchFunctionMode", None)
    if base is not None:
        told.loaders.add(number)
        fetcher.fetch = Look(recorder, number, fetcher, base)  # of this one object, until two batches were looked at


class Look:
    """In the place of one fetcher's `fetch`."""

    def __init__(self, recorder: Recorder, number: int, fetcher: Any, base: Any) -> None:
        self.recorder, self.number, self.fetcher = recorder, number, fetcher
        self.fetch = fetcher.fetch
        self.mode = _mode(base, self)
        self.batches = self.spent = self.shared = 0
        self.names: dict[str, int] = {}

    def __call__(self, *args: Any) -> Any:
        self.batches += 1
        if self.batches <= SKIPPED:
            return self.fetch(*args)
        begun = clock()
        try:
            with self.mode:
                data = self.fetch(*args)
        except Exception as error:
            clean(error)
            raise
        self.spent += clock() - begun
        if self.batches == SKIPPED + LOOKED:
            quietly(self._tell)
        return data

    def took(self, function: Any, spent: int) -> None:
        name = getattr(function, "__name__", "")
        if spent >= LONG and name not in ALONE_TOO and not any(part in name for part in ALONE):
            self.shared += spent
            self.names[name] = self.names.get(name, 0) + spent

    def _tell(self) -> None:
        vars(self.fetcher).pop("fetch", None)
        most = sorted(self.names, key=lambda name: -self.names[name])[:SHOWN]
        facts = {"seconds": self.spent / 1e9, "shared": self.shared / 1e9, "names": most, "batches": LOOKED}
        self.recorder.note(Kind.SHARED, self.number, clock(), 0, self.recorder.intern(json.dumps(facts)))


def _mode(base: Any, look: Look) -> Any:
    class Timing(base):  # type: ignore[misc]
        """Runs every operation as it is. Those inside of another are timed with it."""

        def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            begun = clock()
            result = func(*args, **(kwargs or {}))
            look.took(func, clock() - begun)
            return result

    return Timing()


told = Told()
