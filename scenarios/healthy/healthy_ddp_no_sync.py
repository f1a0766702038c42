# expect: healthy
"""Two ranks collect the gradients of four small batches before each step, and exchange them only with the fourth."""

import contextlib
import datetime
import tempfile

import torch
import torch._dynamo  # DDP does so itself, which takes seconds: this way it is once for all ranks
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

COLLECTED = 4
EPOCHS = 6


def train(rank, world, folder):
    torch.set_num_threads(1)
    limit = datetime.timedelta(minutes=5)
    dist.init_process_group("gloo", f"file://{folder}/meet", limit, world, rank)
    data = TensorDataset(torch.randn(320, 16), torch.randint(0, 3, (320,)))
    sampler = DistributedSampler(data, world, rank)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3)))
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for number, (rows, kinds) in enumerate(loader, 1):
            exchange = number % COLLECTED == 0 or number == len(loader)
            with contextlib.nullcontext() if exchange else model.no_sync():
                loss = nn.functional.cross_entropy(model(rows), kinds)
                (loss / COLLECTED).backward()
            if exchange:
                optimizer.step()
                optimizer.zero_grad()
    print("rank", rank, "is done", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
