"""A small training for two ranks: `ranks.py FOLDER WORKERS [FIFO]`. With a FIFO, one worker of rank 0 stands at it.

In FOLDER a file `rank-N` says that rank N has taken its first steps, and `stuck` that the FIFO has been reached.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
from torch import distributed
from torch.utils.data import DataLoader, Dataset

WARM = 20  # steps
STUCK = 400  # the sample that never comes
SAMPLE, BODY = 0.01, 0.05  # seconds, asleep: the machine's processors are left to what is measured


class Samples(Dataset):
    def __init__(self, folder, fifo):
        self.folder = folder
        self.fifo = fifo

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        if index == STUCK and self.fifo is not None:
            (self.folder / "stuck").touch()
            self.fifo.read_bytes()
        time.sleep(SAMPLE)
        return torch.full((8,), float(index % 7))


def main(folder, workers, fifo):
    distributed.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    samples = Samples(folder, fifo if rank == 0 else None)
    for step, rows in enumerate(DataLoader(samples, batch_size=4, num_workers=workers)):
        optimizer.zero_grad()
        model(rows).mean().backward()
        distributed.all_reduce(model.weight.grad)
        optimizer.step()
        time.sleep(BODY)
        if step == WARM:
            (folder / f"rank-{rank}").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
