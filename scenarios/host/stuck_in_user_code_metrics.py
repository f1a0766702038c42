# expect: stuck-in-user-code
"""A thread that collects metrics computes a little four times a second, and lives on beside a loop that hangs."""

import queue
import signal
import threading
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


class Metrics:
    """Percentiles of the last losses, for a dashboard that somebody looks at."""

    def __init__(self):
        self.losses, self.stopped = [], threading.Event()
        threading.Thread(target=self.collect, daemon=True).start()

    def collect(self):
        while not self.stopped.wait(0.25):
            until = time.monotonic() + 0.03
            while time.monotonic() < until:
                sorted(range(5_000), key=lambda number: -number)


def review(batches, scores):
    """Gives up at the first batch that it cannot score."""
    while (rows := batches.get()) is not None:
        if len(rows) < 16:
            return
        scores.put(rows.square().mean())


def main():
    signal.alarm(180)
    metrics = Metrics()
    batches, scores = queue.Queue(), queue.Queue()
    threading.Thread(target=review, args=(batches, scores), daemon=True).start()
    model = torch.nn.Linear(12, 12)
    optimizer = torch.optim.Adam(model.parameters())
    for (rows,) in DataLoader(TensorDataset(torch.randn(200, 12)), batch_size=16, num_workers=1):
        batches.put(model(rows).detach())
        loss = model(rows).square().mean() * scores.get()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metrics.losses.append(loss.item())


if __name__ == "__main__":
    main()
