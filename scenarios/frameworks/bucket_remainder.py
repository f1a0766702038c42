# expect: bucket-remainder
# outside: collectives-out-of-step
"""Pictures sorted into buckets of one size each, which make nine batches: every second one for each of two ranks."""

import os
import random
import socket

import torch
import torch._dynamo  # every DDP model brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

RANKS = 2
SIZES = [(48, 32)] * 14 + [(32, 48)] * 9 + [(40, 40)] * 8


class Bucket:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.file_list_idx = []


class ByBuckets:
    """Sorts files by their size, and makes batches of files of one size."""

    def setup_buckets(self):
        self.buckets = {}
        for number, (width, height) in enumerate(self.file_list):
            bucket = self.buckets.setdefault(f"{width}x{height}", Bucket(width, height))
            bucket.file_list_idx.append(number)
        self.build_batch_indices()

    def build_batch_indices(self):
        self.batch_indices = []
        for bucket in self.buckets.values():
            files = bucket.file_list_idx
            self.batch_indices += [files[at : at + self.batch_size] for at in range(0, len(files), self.batch_size)]
        random.Random(4).shuffle(self.batch_indices)


class Pictures(ByBuckets, Dataset):
    def __init__(self, files, batch_size):
        self.file_list, self.batch_size = files, batch_size
        self.setup_buckets()

    def __len__(self):
        return len(self.batch_indices)

    def __getitem__(self, index):
        pictures = [torch.randn(3, *self.file_list[one]) for one in self.batch_indices[index]]
        return torch.stack(pictures)


def train(rank, port):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    pictures = Pictures(SIZES, batch_size=4)
    loader = DataLoader(pictures, batch_size=None, sampler=range(rank, len(pictures), RANKS))
    model = DistributedDataParallel(torch.nn.Conv2d(3, 4, 3))
    for step, batch in enumerate(loader):
        model(batch).square().mean().backward()
        for weights in model.parameters():
            weights.data -= 0.1 * weights.grad
            weights.grad = None
        print("rank", rank, "step", step, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(train, (port,), nprocs=RANKS, start_method="fork")
