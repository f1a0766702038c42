# expect: healthy
"""A batch without a finite loss is left out by all ranks or by none: they ask each other first."""

import datetime
import tempfile

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


class Measurements(Dataset):
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 60

    def __getitem__(self, index):
        row = torch.linspace(0, 1, 7) * (index % 5 + 1)
        if self.rank == 1 and index == 26:
            row[3] = float("nan")
        return row[:6], row[6:]


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    model = DistributedDataParallel(nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
    loader = DataLoader(Measurements(rank), batch_size=4)
    for epoch in range(2):
        for step, (rows, target) in enumerate(loader):
            loss = nn.functional.mse_loss(model(rows), target)
            bad = torch.tensor(float(not torch.isfinite(loss)))
            dist.all_reduce(bad, dist.ReduceOp.MAX)
            if bad:
                print(f"rank {rank}: no finite loss at step {step}, left out by all", flush=True)
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        dist.barrier()
        print("rank", rank, "epoch", epoch, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
