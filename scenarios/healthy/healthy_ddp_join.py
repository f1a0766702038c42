# expect: healthy
"""One rank has three times as many recordings as the other; `join` lets the short one wait for the long one."""

import datetime
import tempfile
import time

import torch
import torch._dynamo  # DDP does so itself, which takes seconds: this way it is once for all ranks
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Recordings(IterableDataset):
    def __init__(self, number):
        self.number = number

    def __iter__(self):
        for _ in range(self.number):
            yield torch.randn(20)


def train(rank, world, folder):
    torch.set_num_threads(1)
    limit = datetime.timedelta(minutes=5)
    dist.init_process_group("gloo", f"file://{folder}/meet", limit, world, rank)
    loader = DataLoader(Recordings(60 if rank == 0 else 180), batch_size=6)
    model = DistributedDataParallel(nn.Linear(20, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        with model.join():
            for heard in loader:
                optimizer.zero_grad()
                time.sleep(0.06)  # a larger model would take as long
                model(heard).square().mean().backward()
                optimizer.step()
    dist.barrier()
    print("rank", rank, "is done", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
