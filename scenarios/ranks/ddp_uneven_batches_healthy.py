# expect: healthy
"""Ranks with different numbers of batches that stay together: by Join in one epoch, by an agreed length in the next."""

import datetime
import tempfile
from itertools import islice

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def step(model, optimizer, rows):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(rows[:, :8]), rows[:, 8:]).backward()
    optimizer.step()


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(40 + 16 * rank, 9, generator=torch.Generator().manual_seed(rank))
    loader = DataLoader(TensorDataset(rows), batch_size=8)
    with Join([model]):
        for (batch,) in loader:
            step(model, optimizer, batch)
    dist.barrier()
    shortest = torch.tensor(len(loader))
    dist.all_reduce(shortest, dist.ReduceOp.MIN)
    for _ in range(2):
        for (batch,) in islice(loader, shortest.item()):
            step(model, optimizer, batch)
        dist.barrier()
    print("rank", rank, "is done", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
