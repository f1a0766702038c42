# expect: worker-respawn-epoch-gap
"""Short epochs over a small set, and workers that read a large vocabulary first, again at the start of every epoch."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

EPOCHS = 5


class Sentences(Dataset):
    vocabulary = None

    def __len__(self):
        return 96

    def __getitem__(self, number):
        return torch.full((32,), float(self.vocabulary[number % 7]))


def read_vocabulary(worker):
    time.sleep(0.9)  # what reading it from the shared drive takes
    Sentences.vocabulary = [worker, *range(6)]


def run_epoch(loader, model, optimizer):
    for rows in loader:
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        time.sleep(0.01)  # what an accelerator would take


if __name__ == "__main__":
    model = torch.nn.Linear(32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(Sentences(), batch_size=8, shuffle=True, num_workers=2, worker_init_fn=read_vocabulary)
    for epoch in range(EPOCHS):
        run_epoch(loader, model, optimizer)
        print("epoch", epoch, "done", flush=True)
