# expect: iterable-duplicated
"""A stream that each worker shuffles for itself and nobody divides: no two batches are alike, but epochs are too long."""

import random
import warnings

import torch
from torch.utils.data import DataLoader, IterableDataset

warnings.filterwarnings("ignore", message="Length of IterableDataset")

ROWS = torch.arange(480.0).reshape(240, 2) / 480


class Shuffled(IterableDataset):
    def __len__(self):
        return len(ROWS)

    def __iter__(self):
        order = list(range(len(ROWS)))
        random.shuffle(order)
        yield from (ROWS[i] for i in order)


loader = DataLoader(Shuffled(), batch_size=24, num_workers=2)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(2):
    print("epoch", epoch, "of", len(loader), "batches", flush=True)
    for rows in loader:
        optimizer.zero_grad()
        (model(rows) - rows.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
