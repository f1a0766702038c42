"""Says when a script has its imports behind it: the monotonic clock is the same in every process."""

import json
import sys
import time

import torch  # noqa: F401

if sys.argv[2] == "traceml":
    import traceml_ai

    traceml_ai.init(mode="auto")

with open(sys.argv[1], "w") as file:
    json.dump(time.monotonic_ns(), file)
