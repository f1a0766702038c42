# expect: healthy
# launch: -m torch.distributed.run --nproc-per-node 2
"""Rank 0 prepares the data for all ranks here too, with one thread, but in plain Python: more of them would not help."""

import time
from itertools import pairwise

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Counted(Dataset):
    """Letters of a text, counted by what stands before them."""

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        text = f"{number} bottles of beer on the wall, " * 300
        table = [[0.0] * 32 for _ in range(32)]
        for before, letter in pairwise(text):
            table[ord(before) % 32][ord(letter) % 32] += 1
        return torch.tensor(table)


def main():
    dist.init_process_group("gloo")
    weights, end = torch.zeros(32, 32), time.monotonic() + 6
    batches = iter(DataLoader(Counted(), batch_size=2)) if dist.get_rank() == 0 else None
    while True:
        batch = torch.zeros(2, 32, 32) if batches is None else next(batches)
        dist.broadcast(batch, 0)
        weights -= 1e-3 * (weights - batch.mean(0))
        over = torch.tensor([time.monotonic() > end], dtype=torch.int)
        dist.broadcast(over, 0)
        if over:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
