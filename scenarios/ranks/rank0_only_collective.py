# expect: rank0-only-collective
# outside: collectives-out-of-step
"""The first rank writes a checkpoint after each epoch, and its function for that ends with a barrier."""

import datetime
import os
import tempfile
from pathlib import Path

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def save(model, optimizer, path):
    half = path.with_suffix(".half")
    torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, half)
    os.replace(half, path)
    dist.barrier()


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    data = TensorDataset(torch.randn(64, 6), torch.randn(64, 1))
    sampler = DistributedSampler(data, world, rank, seed=3)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for rows, target in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), target).backward()
            optimizer.step()
        if rank == 0:
            save(model, optimizer, Path(folder) / "last.pt")
            print("epoch", epoch, "is saved", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
