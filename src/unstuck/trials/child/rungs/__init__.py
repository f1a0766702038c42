"""What can be asked for. Each is a function of a request and of facts, which does it with the user's loader."""

from __future__ import annotations

# By its name, the file and the function. Nothing is imported here: whoever asks for one needs no other.
RUNGS = {
    "construct": "passes.construct",
    "collate": "passes.collate",
    "passes": "passes.passes",
    "stopping": "passes.stopping",
    "samples": "samples.run",
    "ranks": "ranks.run",
    "benchmark": "benchmark.run",
    "measure": "measure.run",
}
