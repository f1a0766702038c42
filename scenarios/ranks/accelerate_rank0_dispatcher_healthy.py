# expect: healthy
"""A stream that the first rank reads for both, faster than they train: nobody waits for it."""

import os
import socket
import time

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
from accelerate import Accelerator
from torch.utils.data import DataLoader, IterableDataset


class Recordings(IterableDataset):
    """Sounds from an object store: every request takes its time."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        for number in range(self.count):
            time.sleep(0.001)
            yield torch.full((256,), number / self.count)


def train(rank, world, port):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), OMP_NUM_THREADS="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Sequential(torch.nn.Linear(256, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Recordings(800), batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for step, sounds in enumerate(loader):
        optimizer.zero_grad()
        time.sleep(0.08)  # what a larger model would take
        accelerator.backward(model(sounds).square().mean())
        optimizer.step()
        if step % 20 == 0:
            accelerator.print("step", step)


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(train, (2, port), nprocs=2, start_method="fork")
