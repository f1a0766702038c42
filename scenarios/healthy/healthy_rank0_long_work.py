# expect: healthy (core)
"""After the epoch the first rank evaluates and writes a report, alone and for long; the other one waits for it."""

import os
import socket
import time

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def report(model, rows):
    """Beam search over a held-out part: nothing of it goes through a DataLoader or a collective."""
    best, until = [], time.monotonic() + 13
    while time.monotonic() < until:
        scores = model(rows[torch.randint(len(rows), (64,))]).squeeze(1).tolist()
        best = sorted([*best, *scores], reverse=True)[:100]
    return sum(best) / len(best)


def train(rank, world, port):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), OMP_NUM_THREADS="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    accelerator = Accelerator(cpu=True)
    rows = torch.rand(640, 16)
    model = torch.nn.Linear(16, 1)
    loader = DataLoader(TensorDataset(rows), batch_size=32, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), loader)
    for epoch in range(2):
        for (batch,) in loader:
            optimizer.zero_grad()
            accelerator.backward(model(batch).square().mean())
            optimizer.step()
        if accelerator.is_main_process and epoch == 0:
            with torch.no_grad():
                print("report:", report(accelerator.unwrap_model(model), rows), flush=True)
        accelerator.wait_for_everyone()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(train, (2, port), nprocs=2, start_method="fork")
