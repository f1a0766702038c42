"""`python slow_training.py FILE.py:callable KWARGS STEPS SECONDS`: loops over a loader slowly: its queue fills.

It ends after STEPS, or with its last pass. What is measured is measured from outside.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time

import torch  # noqa: F401  (as a training has it)

PATIENCE = 60.0  # seconds
PASSES = 3  # as a training has several: each has workers of its own, and what these take differs by chance


def loader_of(target: str, kwargs: dict[str, object]):
    path, _, name = target.rpartition(":")
    spec = importlib.util.spec_from_file_location("loaders", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["loaders"] = module
    spec.loader.exec_module(module)
    made = getattr(module, name)(**kwargs)
    if hasattr(made, "train_dataloader"):
        made.setup("fit")
        made = made.train_dataloader()
    return made


def wait_until_full(loader, batches) -> None:
    """A machine that is busy with other things fills the queue slowly; a long training would have filled it."""
    ahead, until = loader.num_workers * (loader.prefetch_factor or 0), time.monotonic() + PATIENCE
    while time.monotonic() < until and _waiting(batches) < ahead:
        time.sleep(0.05)


def _waiting(batches) -> int:
    """In the queue, and of those that came out of turn the ones that were taken from it already."""
    return batches._data_queue.qsize() + sum(len(one) == 2 for one in batches._task_info.values())


def main(target: str, kwargs: str, steps: str, seconds: str) -> None:
    loader, left = loader_of(target, json.loads(kwargs)), int(steps)
    for number in range(PASSES):
        batches = iter(loader)
        for taken, batch in enumerate(batches):  # noqa: B007  (the training has it in use meanwhile)
            if not number and not taken:
                wait_until_full(loader, batches)
            time.sleep(float(seconds))
            left -= 1
            if not left:
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
