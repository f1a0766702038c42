# expect: rendezvous-peer-missing
"""A script for two processes is started as one: somebody has removed the second line from the shell script."""

import datetime
import os
import signal
import socket
import sys

import torch
import torch.distributed as dist
from torch import nn


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("nobody ended this run"))
    signal.alarm(120)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=30))
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
    wanted = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": "0"}
    os.environ.update({name: value for name, value in wanted.items() if name not in os.environ})
    main()
