# expect: ddp-uneven-batches (core)
# outside: collectives-out-of-step
"""Two ranks take every second row of a table with an odd number of batches, and meet at the end of each epoch."""

import datetime
import tempfile
from pathlib import Path

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

ROWS, BATCH = 84, 8  # 42 rows each; five full batches and a rest of two, which only one rank keeps


def rows_of(rank, world):
    generator = torch.Generator().manual_seed(7)
    table = torch.randn(ROWS, 9, generator=generator)
    own = table[rank::world]
    return TensorDataset(own[:40] if rank == 1 else own)


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    model = DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(rows_of(rank, world), batch_size=BATCH)
    for epoch in range(3):
        for (rows,) in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows[:, :8]), rows[:, 8:]).backward()
            optimizer.step()
        dist.barrier()
        if rank == 0:
            torch.save(model.module.state_dict(), Path(folder) / "model.pt")
        print("rank", rank, "epoch", epoch, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
