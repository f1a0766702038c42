# expect: healthy
"""The model is the limit: all workers wait for something to do, and the main process computes without pause."""

import time

import torch
from torch.utils.data import DataLoader, TensorDataset


def heavy(model, rows, seconds):
    """As many passes as fit, so that a step takes as long on any machine."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        model(rows).square().mean().backward()


def main():
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(TensorDataset(torch.rand(320, 512)), batch_size=8, num_workers=3)
    for step, (rows,) in enumerate(loader):
        optimizer.zero_grad()
        heavy(model, rows.repeat(32, 1), 0.3)
        optimizer.step()
        print("step", step, flush=True)


if __name__ == "__main__":
    main()
