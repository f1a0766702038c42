# expect: healthy
"""Pictures in buckets of one size each: nine batches for two ranks, which accelerate evens out by repeating one."""

import os
import random
import socket

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

RANKS = 2


class Pictures(Dataset):
    """Of three formats, a third each."""

    def __len__(self):
        return 36

    def __getitem__(self, index):
        width = 24 + 8 * (index % 3)
        return torch.randn(3, 32, width), index % 10


class BucketSampler:
    """Batches of pictures that have the same size."""

    def __init__(self, count, size):
        self.batches = []
        for kind in range(3):
            bucket = list(range(kind, count, 3))
            self.batches += [bucket[start : start + size] for start in range(0, len(bucket), size)]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        yield from random.Random(0).sample(self.batches, len(self.batches))


def train(rank, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1")
    os.environ.update(MASTER_PORT=str(port), OMP_NUM_THREADS="1")
    accelerator = Accelerator(cpu=True)
    pictures = Pictures()
    loader = DataLoader(pictures, batch_sampler=BucketSampler(len(pictures), 4), num_workers=1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    model.append(torch.nn.Linear(8, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for pixels, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(pixels), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.wait_for_everyone()
    accelerator.print("epoch done")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    torch.multiprocessing.start_processes(train, (free_port(),), nprocs=RANKS, start_method="fork")
