# expect: healthy
"""Two ranks validate after every epoch, both of them, one slower than the other, and add up what they found."""

import datetime
import tempfile
import time

import torch
import torch._dynamo  # DDP does so itself, which takes seconds: this way it is once for all ranks
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def loader_for(rows, rank, world):
    data = TensorDataset(rows)
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data, world, rank, shuffle=False), num_workers=1)


@torch.no_grad()
def validate(model, loader, pause):
    model.eval()
    found = torch.zeros(2)
    for (rows,) in loader:
        time.sleep(pause)  # a picture is drawn for each of them
        found += torch.tensor([model(rows).square().mean().item(), 1.0])
    dist.all_reduce(found)
    model.train()
    return (found[0] / found[1]).item()


def train(rank, world, folder):
    torch.set_num_threads(1)
    limit = datetime.timedelta(minutes=5)
    dist.init_process_group("gloo", f"file://{folder}/meet", limit, world, rank)
    training, held_out = (loader_for(torch.randn(96, 6), rank, world) for _ in range(2))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 12), nn.Dropout(0.1), nn.Linear(12, 1)))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(2):
        for (rows,) in training:
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
        score = validate(model, held_out, 0.1 + 0.05 * rank)
        if rank == 0:
            print(f"epoch {epoch}: {score:.4f}", flush=True)
        dist.barrier()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
