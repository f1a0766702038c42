"""What the measured loops are called, and the budgets of DESIGN.md that they are held against."""

from __future__ import annotations

BODY = 1000.0  # µs: the part of a step that is left out of the time and put back for the ratio
TITLES = {
    "ready": ("A step of hooks alone: the batch is there, the body is optimizer.step()", 0.0),
    "workers": ("A step with 2 workers and a body of 1 ms (not counted)", BODY),
    "no workers": ("A step with num_workers=0, 4 samples to fetch, and a body of 1 ms (not counted)", BODY),
    "samples 32": ("A sample in a worker, in batches of 32, everything of the batch included", 0.0),
    "samples 256": ("A sample in a worker, in batches of 256", 0.0),
}
BUDGETS = {
    "ready": ("added to a step, hooks alone", 10, "µs"),
    "workers": ("added to a step, 2 workers, body of 1 ms", 10, "µs"),
    "no workers": ("added to a step, num_workers=0 (10 µs, and 3 µs for each of 4 samples)", 22, "µs"),
    "samples 32": ("added to a sample in a worker, batches of 32", 3, "µs"),
    "samples 256": ("added to a sample in a worker, batches of 256", 3, "µs"),
    "startup with torch": ("start-up with torch", 25, "ms"),
    "startup without torch": ("start-up without torch", 3, "ms"),
}
