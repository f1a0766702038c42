# expect: uncaught-exception (core)
"""A shape that fits until the last, smaller batch of the epoch comes."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def weights_for(batch):
    return torch.ones(32)


def main():
    loader = DataLoader(TensorDataset(torch.rand(330, 5)), batch_size=32, num_workers=1)
    model = torch.nn.Linear(5, 1)
    for (rows,) in loader:
        model.zero_grad()
        loss = (model(rows).squeeze(1) * weights_for(rows)).mean()
        loss.backward()
        for weight in model.parameters():
            weight.data -= 0.1 * weight.grad


if __name__ == "__main__":
    main()
