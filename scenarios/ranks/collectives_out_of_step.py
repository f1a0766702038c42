# expect: collectives-out-of-step
"""Two groups over the same two ranks, and the ranks call them in a different order: each waits in another one."""

import datetime
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def share_encoder(model, group):
    for parameter in model["encoder"].parameters():
        dist.all_reduce(parameter.grad, group=group)


def share_decoder(model, group):
    for parameter in model["decoder"].parameters():
        dist.all_reduce(parameter.grad, group=group)


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    one, other = dist.new_group(), dist.new_group()
    model = nn.ModuleDict({"encoder": nn.Linear(4, 4), "decoder": nn.Linear(4, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (rows,) in enumerate(DataLoader(TensorDataset(torch.randn(48, 4)), batch_size=4)):
        optimizer.zero_grad()
        model["decoder"](model["encoder"](rows)).mean().backward()
        if rank == 1 and step == 7:
            share_decoder(model, other)
            share_encoder(model, one)
        else:
            share_encoder(model, one)
            share_decoder(model, other)
        optimizer.step()
        print("rank", rank, "step", step, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        torch.multiprocessing.start_processes(train, (2, name), nprocs=2, start_method="fork")
