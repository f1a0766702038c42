# expect: healthy
"""A stream whose items are batches already, so the loader has `batch_size=None`: of a stream accelerate can make that."""

import os
import socket

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Buckets(IterableDataset):
    """Batches that were put together beforehand: each holds pictures of one resolution."""

    def __init__(self):
        self.batch_indices = [range(start, start + 4) for start in range(0, 48, 4)]

    def __iter__(self):
        for indices in self.batch_indices:
            yield torch.stack([torch.full((3, 16, 16), one / 48) for one in indices])


class Held(Dataset):
    """The same for validation, which each rank does for itself: this loader is not given to accelerate."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((4, 3, 16, 16), index / 4)


def train(rank, world, port):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), OMP_NUM_THREADS="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader, held = DataLoader(Buckets(), batch_size=None, num_workers=1), DataLoader(Held(), batch_size=None)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(2):
        for pixels in loader:
            accelerator.backward(model(pixels).square().mean())
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():
            losses = [accelerator.unwrap_model(model)(pixels).square().mean() for pixels in held]
        accelerator.print(f"epoch {epoch} done, {sum(losses).item():.3f}")


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(train, (2, port), nprocs=2, start_method="fork")
