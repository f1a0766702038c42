# expect: healthy
"""Early stopping: the loss is small enough, and the script leaves the loop by sys.exit(0)."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

ENOUGH = 1e-3


def main():
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        for (rows,) in DataLoader(TensorDataset(torch.rand(4000, 8)), batch_size=16):
            optimizer.zero_grad()
            loss = model(rows).square().mean()
            loss.backward()
            optimizer.step()
            if loss.item() < ENOUGH:
                sys.exit(0)


if __name__ == "__main__":
    main()
