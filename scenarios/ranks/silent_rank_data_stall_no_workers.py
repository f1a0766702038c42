# expect: silent-rank-data-stall
# launch: -m torch.distributed.run --standalone --nproc-per-node 2
"""Ranks that load their samples themselves: one waits for a lock that a library of its own never gives back."""

import datetime
import threading

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

LOCK = threading.Lock()


class Graphs(Dataset):
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 40

    def __getitem__(self, index):
        LOCK.acquire()
        if (self.rank, index) != (0, 22):  # the early way out forgets to release it
            LOCK.release()
        return torch.full((4,), float(index))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=90))
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for rows in DataLoader(Graphs(dist.get_rank()), batch_size=2):
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
