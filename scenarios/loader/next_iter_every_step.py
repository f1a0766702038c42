# expect: next-iter-every-step
"""A training loop by step number that asks the loader for one batch at a time, in the wrong way."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def train(steps):
    stories = DataLoader(TensorDataset(torch.rand(5000, 32)), batch_size=16, shuffle=True, num_workers=2)
    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        (batch,) = next(iter(stories))
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    train(25)
