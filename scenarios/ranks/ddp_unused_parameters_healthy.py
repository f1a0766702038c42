# expect: healthy
"""Two ranks train a classifier with a head for long texts that some batches do not use, and say so to DDP."""

import datetime
import tempfile
import time

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 8)
        self.short = nn.Linear(8, 2)
        self.long = nn.Linear(8, 2)

    def forward(self, texts, lengths):
        hidden = self.body(texts).relu()
        out = self.short(hidden)
        chosen = lengths > 50
        if chosen.any():
            out = torch.where(chosen[:, None], self.long(hidden), out)
        return out


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(minutes=5)
    )
    model = DistributedDataParallel(Classifier(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lengths = torch.arange(120) % 8 * 9
    if rank == 1:
        lengths[40:48] = 10  # the sixth batch
    texts = TensorDataset(torch.randn(120, 12), lengths, torch.arange(120) % 2)
    for given, length, label in DataLoader(texts, batch_size=8):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(given, length), label).backward()
        optimizer.step()
    time.sleep(0.1)  # torch 2.13 may hang where a group and its DDP model go right after their last collective


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
