# expect: healthy
"""Slow to start, but started once: these workers stay. Those of the validation come anew each time, and cost little."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

EPOCHS = 4


class Sentences(Dataset):
    vocabulary = range(7)

    def __len__(self):
        return 64

    def __getitem__(self, number):
        return torch.full((32,), float(self.vocabulary[number % 7]))


def read_vocabulary(worker):
    time.sleep(0.9)  # what reading it from the shared drive takes
    Sentences.vocabulary = [worker, *range(6)]


def validate(model, loader):
    with torch.no_grad():
        return sum(model(rows).square().mean().item() for rows in loader)


if __name__ == "__main__":
    model = torch.nn.Linear(32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    train = DataLoader(
        Sentences(), batch_size=8, num_workers=2, worker_init_fn=read_vocabulary, persistent_workers=True
    )
    held_out = DataLoader(Sentences(), batch_size=32, num_workers=1)
    for epoch in range(EPOCHS):
        for rows in train:
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
            time.sleep(0.06)  # what an accelerator would take
        print("epoch", epoch, "validation", validate(model, held_out), flush=True)
