# expect: shm-full-at-start
# environment: shm=16M
"""An earlier run on this machine was killed, and torch's own clean-up with it: what it shared is still there."""

import os
import signal
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def run_that_is_killed():
    """A process that shares tensors by name, as with the file_system strategy, until there is no room; then SIGKILL."""
    pid = os.fork()
    if pid == 0:
        torch.multiprocessing.set_sharing_strategy("file_system")
        shared, size = [], 1 << 20
        while size > 1:
            try:
                shared.append(torch.zeros(size).share_memory_())
            except RuntimeError:
                size //= 4
        time.sleep(60)
    while os.statvfs("/dev/shm").f_bavail:
        time.sleep(0.02)
    with open(f"/proc/{pid}/task/{pid}/children") as helpers:
        for one in [*map(int, helpers.read().split()), pid]:
            os.kill(one, signal.SIGKILL)
    os.waitpid(pid, 0)


def main():
    features = TensorDataset(torch.randn(512, 10), torch.randn(512, 1))
    model = torch.nn.Linear(10, 1)
    for x, y in DataLoader(features, batch_size=32, num_workers=2):
        model.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        for weight in model.parameters():
            weight.data -= 0.01 * weight.grad


if __name__ == "__main__":
    run_that_is_killed()
    main()
