# expect: per-sample-fetch-in-memory
"""A table that lies in memory as two tensors, fetched row by row and put together again, for a model that is quick."""

import time

import torch
from torch.utils.data import DataLoader, TensorDataset

ROWS, BATCH = 60_000, 512


def epoch(loader, model, optimizer):
    for features, target in loader:
        optimizer.zero_grad()
        (model(features).squeeze(1) - target).square().mean().backward()
        optimizer.step()


def main():
    torch.set_num_threads(1)
    table = TensorDataset(torch.rand(ROWS, 32), torch.rand(ROWS))
    model = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(table, batch_size=BATCH, shuffle=True)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        epoch(loader, model, optimizer)
        print("epoch done", flush=True)


if __name__ == "__main__":
    main()
