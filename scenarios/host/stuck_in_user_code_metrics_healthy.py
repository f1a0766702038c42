# expect: healthy
"""The loop waits for a thread that asks its queue by the clock and then computes for long: it goes on."""

import queue
import threading
import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def review(batches, scores, stopped):
    hard = 4
    while not stopped.is_set():
        try:
            rows = batches.get(timeout=0.2)
        except queue.Empty:
            continue
        hard -= 1
        until = time.monotonic() + (16 if hard == 0 else 0.001)
        while time.monotonic() < until:
            torch.linalg.svdvals(torch.randn(40, 40))
        scores.put(rows.square().mean())


def main():
    torch.set_num_threads(1)
    batches, scores, stopped = queue.Queue(), queue.Queue(), threading.Event()
    reviewer = threading.Thread(target=review, args=(batches, scores, stopped))
    reviewer.start()
    model = torch.nn.Linear(12, 12)
    optimizer = torch.optim.Adam(model.parameters())
    for (rows,) in DataLoader(TensorDataset(torch.randn(200, 12)), batch_size=16, num_workers=1):
        batches.put(model(rows).detach())
        loss = model(rows).square().mean() * scores.get()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    stopped.set()
    reviewer.join()


if __name__ == "__main__":
    main()
