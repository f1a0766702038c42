# expect: accelerate-batch-sampler-none
"""A dataset whose items are batches already, so the loader has `batch_size=None`; it worked on one process."""

import os
import socket

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset


class Buckets(Dataset):
    """Batches that were put together beforehand: each holds pictures of one resolution."""

    def __init__(self):
        self.batch_indices = [range(start, start + 4) for start in range(0, 48, 4)]

    def __len__(self):
        return len(self.batch_indices)

    def __getitem__(self, index):
        return torch.stack([torch.full((3, 16, 16), one / 48) for one in self.batch_indices[index]])


def train(rank, world, port):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), OMP_NUM_THREADS="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = DataLoader(Buckets(), batch_size=None, shuffle=True, num_workers=1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(2):
        for pixels in loader:
            accelerator.backward(model(pixels).square().mean())
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(f"epoch {epoch} done")


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(train, (2, port), nprocs=2, start_method="fork")
