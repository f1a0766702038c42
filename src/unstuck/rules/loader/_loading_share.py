"""What dataloader-bound takes for too much waiting, whether the loop was recorded or sampled."""

from __future__ import annotations

from ...analysis.loading import Spread
from ...evidence.finding import Remedy
from ...wording.text import percent
from ._worker_count import ON_CORE

SHARE = 0.3  # a GPU kept busy less than 70 % of the time is the usual mark of a loader that does not keep up
IDLE = 0.5  # of the workers' time: if they rest that much, it is not their samples that take long
TOLD = 0.05  # of loading: less is not worth words
SENDING = Remedy("Return fewer and larger tensors, and no views of big ones: sending batches is what takes long.")


def off_core(parts: Spread) -> str:
    """What the rest is, as far as the kernel tells."""
    if parts.computing >= ON_CORE:
        return ""
    if parts.queued < TOLD:
        return ", the rest is waiting"
    rest = f", {percent(parts.blocked)} other waiting" if parts.blocked >= TOLD else ""
    return f", {percent(parts.queued)} waiting for a CPU core{rest}"
