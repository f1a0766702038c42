# expect: healthy
"""All ranks validate together, and the first one then looks at some more rows by itself, without the others."""

import datetime
import tempfile

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


@torch.no_grad()
def validate(model, loader, *, together):
    model.eval()
    total = torch.zeros(2)
    for rows, target in loader:
        total += torch.tensor([nn.functional.mse_loss(model.module(rows), target).item(), 1.0])
    if together:
        dist.all_reduce(total)
    model.train()
    return (total[0] / total[1]).item()


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    torch.manual_seed(rank)
    training = DataLoader(TensorDataset(torch.randn(48, 5), torch.randn(48, 1)), batch_size=8)
    validation = DataLoader(TensorDataset(torch.randn(24, 5), torch.randn(24, 1)), batch_size=8)
    hard = DataLoader(TensorDataset(torch.randn(40, 5), torch.randn(40, 1)), batch_size=8)
    model = DistributedDataParallel(nn.Linear(5, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(5):
        for rows, target in training:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), target).backward()
            optimizer.step()
        loss = validate(model, validation, together=True)
        if rank == 0:
            print(f"epoch {epoch}: {loss:.3f}, hard {validate(model, hard, together=False):.3f}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
