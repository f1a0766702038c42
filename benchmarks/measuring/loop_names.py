"""What the measured loops are called, and the budgets of DESIGN.md that they are held against."""

from __future__ import annotations

BODY = 1000.0  # µs: the part of a step that is left out of the time and put back for the ratio
TITLES = {
    "ready": ("A step of hooks alone: the batch is there, the body is optimizer.step()", 0.0),
    "tiny": ("The same with forward and backward of a tiny model", 0.0),
    "workers": ("A step with 2 workers, a body of 1 ms (not counted) and optimizer.step()", BODY),
    "no workers": ("The same with num_workers=0: 4 samples are fetched by the main process", BODY),
    "on average": ("The same without a body, on average: what is written down late is in it", 0.0),
    "samples 32": ("A sample in a worker, in batches of 32, the whole fetch of the batch included", 0.0),
    "samples 256": ("A sample in a worker, in batches of 256", 0.0),
}
STARTUPS = {
    "with torch": "Start-up of a process with torch, from start to exit (the import varies by more than the budget)",
    "without torch": "Start-up of a process without torch, from start to exit",
    "part": "Start-up with torch, the recorder's part alone: what torch does not import itself",
}
BUDGETS = {
    "ready": ("added to a step, hooks alone", 10, "µs"),
    "workers": ("added to a step, 2 workers, body of 1 ms", 10, "µs"),
    "no workers": ("added to a step, num_workers=0 (10 µs, and 3 µs for each of 4 samples)", 22, "µs"),
    "on average": ("the same on average, without a body", 22, "µs"),
    "samples 32": ("added to a sample in a worker, batches of 32", 3, "µs"),
    "samples 256": ("added to a sample in a worker, batches of 256", 3, "µs"),
    "startup part": ("start-up with torch, the recorder's part", 25, "ms"),
    "startup without torch": ("start-up without torch", 3, "ms"),
}
