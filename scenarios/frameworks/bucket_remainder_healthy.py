# expect: healthy
"""Pictures in buckets that make eight batches for two ranks, and a set of nine that the sampler fills up to ten."""

import os
import random
import socket

import torch
import torch._dynamo  # every DDP model brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RANKS = 2
EVEN = [(48, 32)] * 14 + [(32, 48)] * 7 + [(40, 40)] * 8
ODD = [(48, 32)] * 14 + [(32, 48)] * 9 + [(40, 40)] * 8


class BucketManager:
    def __init__(self):
        self.resos, self.buckets = [], []

    def add(self, size, key):
        if size not in self.resos:
            self.resos.append(size)
            self.buckets.append([])
        self.buckets[self.resos.index(size)].append(key)


class Pictures(Dataset):
    def __init__(self, files, batch_size):
        self.files, self.batch_size = files, batch_size
        self.make_buckets()

    def make_buckets(self):
        self.bucket_manager = BucketManager()
        for number, size in enumerate(self.files):
            self.bucket_manager.add(size, number)
        self.buckets_indices = []
        for number, bucket in enumerate(self.bucket_manager.buckets):
            self.buckets_indices += [(number, at) for at in range(0, len(bucket), self.batch_size)]
        random.Random(4).shuffle(self.buckets_indices)

    def __len__(self):
        return len(self.buckets_indices)

    def __getitem__(self, index):
        number, at = self.buckets_indices[index]
        size = self.bucket_manager.resos[number]
        return torch.stack(
            [torch.randn(3, *size) for _ in self.bucket_manager.buckets[number][at : at + self.batch_size]]
        )


def train(rank, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    even, odd = Pictures(EVEN, 4), Pictures(ODD, 4)
    model = DistributedDataParallel(torch.nn.Conv2d(3, 4, 3))
    padded = DistributedSampler(odd, RANKS, rank, shuffle=True)
    for epoch in range(2):
        padded.set_epoch(epoch)
        for loader in (
            DataLoader(even, batch_size=None, sampler=range(rank, len(even), RANKS)),
            DataLoader(odd, batch_size=None, sampler=padded),
        ):
            for batch in loader:
                model(batch).square().mean().backward()
                for weights in model.parameters():
                    weights.data -= 0.1 * weights.grad
                    weights.grad = None
        dist.barrier()
        print("rank", rank, "epoch", epoch, flush=True)
    del model  # freed after the group, it may wait for ever: for a thread of gloo that waits for the interpreter
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(train, (port,), nprocs=RANKS, start_method="fork")
