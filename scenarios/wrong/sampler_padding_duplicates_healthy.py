# expect: healthy
"""Four ranks train a classifier on 330 rows and test it on 61, neither of which four ranks can share evenly: in training
that is as it should be, and in the test what was repeated is cut off before anything is counted."""

import tempfile

import torch
import torch._dynamo  # each rank would import it for its optimizer
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

RANKS = 4
EPOCHS = 2


def rows(count):
    generator = torch.Generator().manual_seed(count)
    features = torch.randn(count, 8, generator=generator)
    return TensorDataset(features, (features[:, 0] > 0).long())


def train_epoch(model, optimizer, loader, epoch):
    loader.sampler.set_epoch(epoch)
    model.train()
    for features, label in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(features), label).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


def gathered(values):
    """In the order of the dataset: the ranks took turns."""
    parts = [torch.empty_like(values) for _ in range(RANKS)]
    dist.all_gather(parts, values)
    return torch.stack(parts, dim=1).flatten()


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        right = torch.cat([model(features).argmax(1) == label for features, label in loader])
    return gathered(right.int())[: len(loader.dataset)].float().mean()


def main(rank, store):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    train, held_out = rows(330), rows(61)
    train_loader = DataLoader(train, batch_size=16, sampler=DistributedSampler(train))
    test_loader = DataLoader(held_out, batch_size=8, sampler=DistributedSampler(held_out, shuffle=False))
    model = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(EPOCHS):
        train_epoch(model, optimizer, train_loader, epoch)
        score = accuracy(model, test_loader)
        if rank == 0:
            print(f"epoch {epoch}: accuracy {score:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(main, args=(f"{folder}/store",), nprocs=RANKS, start_method="fork")
