# expect: healthy
"""The port is taken, too, but this script notices and asks for another one."""

import os
import socket

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def join(port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo")


def main():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        try:
            join(taken.getsockname()[1])
        except (RuntimeError, dist.DistNetworkError):
            with socket.socket() as free:
                free.bind(("", 0))
                port = free.getsockname()[1]
            join(port)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (rows,) in DataLoader(TensorDataset(torch.randn(80, 6)), batch_size=4):
        optimizer.zero_grad()
        model(rows).sum().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
