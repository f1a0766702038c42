# expect: collective-timeout
"""Two ranks average their gradients by hand; one of them writes a long report first, and the other gives up waiting."""

import datetime
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def report(model):
    for _ in range(40):  # a page each, sent to a slow printer
        time.sleep(0.1)
        sum(float(one.sum()) for one in model.parameters())


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=2)
    )
    torch.manual_seed(rank)
    model = nn.Linear(10, 1)
    rows = TensorDataset(torch.randn(64, 10), torch.randn(64, 1))
    for step, (given, wanted) in enumerate(DataLoader(rows, batch_size=4)):
        model.zero_grad()
        nn.functional.mse_loss(model(given), wanted).backward()
        if rank == 1 and step == 9:
            report(model)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.data -= 0.01 / world * parameter.grad
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
