# expect: accelerate-uneven-batch-sampler
"""Sentences in buckets by length, on four ranks: the last batch of a bucket is small, and accelerate stumbles over it."""

import os
import socket

import torch
import torch._dynamo  # every optimizer brings it along: once here instead of once in every rank
from accelerate import Accelerator
from torch.utils.data import DataLoader, Sampler

RANKS, EPOCHS = 4, 2


class LengthSampler(Sampler):
    """Whole batches first, then what is left over of each length."""

    def __init__(self, lengths, batch_size):
        self.batch_size = batch_size
        self.drop_last = False
        buckets = {}
        for index, length in enumerate(lengths):
            buckets.setdefault(length, []).append(index)
        batches = [rows[at : at + batch_size] for rows in buckets.values() for at in range(0, len(rows), batch_size)]
        self.batches = sorted(batches, key=len, reverse=True)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


def main(rank, port):
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    accelerator = Accelerator(cpu=True)
    lengths = [8] * 10 + [12] * 9 + [16] * 11
    sentences = [torch.nn.functional.pad(torch.randint(1, 500, (length,)), (0, 16 - length)) for length in lengths]
    loader = DataLoader(sentences, batch_sampler=LengthSampler(lengths, batch_size=4))
    model = torch.nn.Sequential(torch.nn.EmbeddingBag(500, 16), torch.nn.Linear(16, 2))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.Adam(model.parameters()), loader)
    for epoch in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            accelerator.backward(model(batch).logsumexp(1).mean())
            optimizer.step()
        print(f"rank {rank} is through with epoch {epoch}", flush=True)


if __name__ == "__main__":
    with socket.create_server(("localhost", 0)) as listener:
        port = listener.getsockname()[1]
    torch.multiprocessing.start_processes(main, (port,), nprocs=RANKS, start_method="fork")
