# expect: next-iter-every-step
"""A prefetcher that has the next batch ready, made again in every step: each iterator gives two batches for one step."""

import torch
from torch.utils.data import DataLoader, TensorDataset


class Prefetcher:
    def __init__(self, loader):
        self.batches = iter(loader)
        self.ready = next(self.batches)

    def next(self):
        batch, self.ready = self.ready, next(self.batches)
        return batch


def train(steps):
    stories = DataLoader(TensorDataset(torch.rand(5000, 32)), batch_size=16, shuffle=True, num_workers=2)
    model = torch.nn.Linear(32, 32)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        (batch,) = Prefetcher(stories).next()
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    train(25)
