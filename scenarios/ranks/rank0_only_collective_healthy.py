# expect: healthy
"""The first rank prepares, saves and reports while the other waits: every barrier has its partner, at another line."""

import datetime
import tempfile
import time
from pathlib import Path

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def data_of(rank, folder):
    path = Path(folder) / "rows.pt"
    if rank != 0:
        dist.barrier()
    else:
        torch.save(torch.randn(64, 7), path)
        dist.barrier()
    rows = torch.load(path)
    return TensorDataset(rows[:, :6], rows[:, 6:])


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    data = data_of(rank, folder)
    sampler = DistributedSampler(data, world, rank, seed=3)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for rows, target in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), target).backward()
            optimizer.step()
        if rank == 0:
            torch.save(model.module.state_dict(), Path(folder) / "last.pt")
            time.sleep(0.7)
            print("epoch", epoch, "is saved", model.module(rows).mean().item(), flush=True)
        dist.barrier()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
