# expect: healthy
"""Two ranks fit a small regression: the sampler is told the epoch, one batch is looked at before, and the validation
data is shuffled by a sampler that nobody tells anything: there the order makes no difference."""

import tempfile

import torch
import torch._dynamo  # each rank would import it for its optimizer
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

RANKS = 2
EPOCHS = 4


def houses(count):
    generator = torch.Generator().manual_seed(count)
    features = torch.randn(count, 6, generator=generator)
    return TensorDataset(features, features.sum(1, keepdim=True))


def train(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    dataset, held_out = houses(240), houses(48)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=12, sampler=sampler)
    validation = DataLoader(held_out, batch_size=12, sampler=DistributedSampler(held_out))
    mean = next(iter(loader))[0].mean()
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for features, price in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(features - mean), price)
            loss.backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= RANKS
            optimizer.step()
        with torch.no_grad():
            errors = [torch.nn.functional.mse_loss(model(features - mean), price) for features, price in validation]
        if rank == 0:
            print(f"epoch {epoch}: error {sum(errors) / len(errors):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(train, args=(f"{folder}/store",), nprocs=RANKS, start_method="fork")
