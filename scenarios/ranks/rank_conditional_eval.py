# expect: rank-conditional-eval
# outside: collectives-out-of-step
"""Only the first rank has a progress bar, and only who has one validates; the mean of its losses is for all ranks."""

import datetime
import tempfile

import torch
import torch._dynamo  # DDP brings it along: once here instead of once in every rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


class Bar:
    """Of the main rank; the others have none."""

    def show(self, text):
        print(text, flush=True)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = torch.zeros(2)
    for rows, target in loader:
        total += torch.tensor([nn.functional.mse_loss(model.module(rows), target).item(), 1.0])
    parts = [torch.zeros(2) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, total)
    model.train()
    loss, count = torch.stack(parts).sum(0)
    return (loss / count).item()


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{folder}/meet", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=90)
    )
    torch.manual_seed(rank)
    training = DataLoader(TensorDataset(torch.randn(48, 5), torch.randn(48, 1)), batch_size=8)
    validation = DataLoader(TensorDataset(torch.randn(24, 5), torch.randn(24, 1)), batch_size=8)
    bar = Bar() if rank == 0 else None
    model = DistributedDataParallel(nn.Linear(5, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(5):
        for rows, target in training:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), target).backward()
            optimizer.step()
        if bar is not None and epoch % 2 == 1:
            bar.show(f"epoch {epoch}: {validate(model, validation):.3f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(train, (2, folder), nprocs=2, start_method="fork")
