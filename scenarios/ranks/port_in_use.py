# expect: port-in-use (core)
# outside: nothing
"""Two jobs on one machine with the port that a launch script has written in: the second cannot listen."""

import os
import subprocess
import sys

import torch
import torch.distributed as dist

# The other job: its store listens, and its ranks are still at work.
OTHER = """
import socket, sys
listening = socket.socket()
listening.bind(("", 0))
listening.listen()
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
"""


def train():
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(6, 2))
    for _ in range(10):
        model(torch.randn(4, 6)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        port = other.stdout.readline().strip()
        wanted = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "0", "WORLD_SIZE": "1"}
        os.environ.update({name: value for name, value in wanted.items() if name not in os.environ})
        try:
            train()
        finally:
            other.stdin.close()
