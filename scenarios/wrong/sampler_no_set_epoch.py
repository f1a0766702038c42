# expect: sampler-no-set-epoch (core)
"""Two ranks fit a small regression over four epochs; nobody tells the sampler which epoch it is."""

import tempfile

import torch
import torch._dynamo  # each rank would import it for its optimizer
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

RANKS = 2
EPOCHS = 4


def houses():
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(240, 6, generator=generator)
    return TensorDataset(features, features.sum(1, keepdim=True))


def train(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    dataset = houses()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=12, sampler=sampler)
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(EPOCHS):
        for features, price in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(features), price)
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= RANKS
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(train, args=(f"{folder}/store",), nprocs=RANKS, start_method="fork")
