# expect: healthy
"""Two ranks: the second prepares its vocabulary first, and the other waits for it where they meet."""

import datetime
import multiprocessing
import socket
import time

import torch
import torch.distributed as dist
from torch import nn


def vocabulary():
    words: dict[str, int] = {}
    end = time.monotonic() + 3.5
    while time.monotonic() < end:
        words[f"word {len(words) % 50_000}"] = len(words)
    return words


def train(rank, world, port):
    torch.set_num_threads(1)
    if rank == 1:
        vocabulary()
    dist.init_process_group(
        "gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, timeout=datetime.timedelta(minutes=30)
    )
    model = nn.Linear(4, 1)
    for _ in range(20):
        model(torch.randn(8, 4)).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = [multiprocessing.get_context("fork").Process(target=train, args=(rank, 2, port)) for rank in range(2)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
