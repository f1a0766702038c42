# expect: healthy (core)
"""Two ranks with two workers each, even work, and in between a pause on all ranks that is as long as a stall."""

import datetime
import tempfile
import time

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

PAUSE = 12  # seconds in which a new learning rate is waited for, say


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    data = TensorDataset(torch.randn(160, 4), torch.randn(160, 1))
    sampler = DistributedSampler(data, world, rank)
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2, persistent_workers=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for step, (rows, target) in enumerate(loader):
            if (epoch, step) == (1, 4):
                time.sleep(PAUSE)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), target).backward()
            optimizer.step()
        dist.barrier()
        print("rank", rank, "epoch", epoch, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        torch.multiprocessing.start_processes(train, (2, name), nprocs=2, start_method="fork")
