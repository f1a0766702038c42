# expect: exited-with-code (core)
"""The loss passes a bound that somebody has set, and the script leaves with a code that only its author knows."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

BOUND = 1e3


def main():
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
    for (rows,) in DataLoader(TensorDataset(torch.rand(4000, 8)), batch_size=16):
        optimizer.zero_grad()
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
        if loss.item() > BOUND:
            sys.exit(3)


if __name__ == "__main__":
    main()
