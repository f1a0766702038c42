# expect: rank-local-skip-desync
"""One rank drops a batch that is too long for it; nobody notices until its last step finds no partner."""

import datetime
import tempfile

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

LONGEST = 48


def texts(rank):
    return [torch.randint(0, 50, (70 if (rank, number) == (0, 9) else 20 + number,)) for number in range(20)]


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    model = DistributedDataParallel(nn.Sequential(nn.EmbeddingBag(50, 8), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for tokens in DataLoader(texts(rank), batch_size=None):
            if len(tokens) > LONGEST:
                continue
            model(tokens[None]).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    print("rank", rank, "is done", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
