"""The versions of torch and of libraries beside it, told once: what a fix may ask for depends on them."""

from __future__ import annotations

import json
import sys

from ..format import Kind
from .recorder import Recorder, clock

LIBRARIES = (
    "torch", "accelerate", "datasets", "lightning", "mlflow", "pytorch_lightning", "wandb", "webdataset",
)  # fmt: skip
LONGEST = 40


class Told:
    """By recording: a forked child tells it again in its own."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None


def tell(recorder: Recorder) -> None:
    """Of those that were imported by now."""
    if told.recorder is recorder:
        return
    told.recorder = recorder
    known = {name: version for name in LIBRARIES if (version := version_of(name))}
    recorder.note(Kind.VERSIONS, 0, clock(), 0, recorder.intern(json.dumps(known)))


def version_of(library: str) -> str:
    """As its module has it: nothing is imported, and no code of its own runs."""
    module = sys.modules.get(library)
    found = getattr(module, "__dict__", {}).get("__version__")
    return str.__str__(found)[:LONGEST] if isinstance(found, str) else ""


told = Told()
