# expect: loop-without-batch
"""Two workers take turns over the shards of one file list; there is one shard, so the second worker's share is empty."""

import glob
import os
import signal
import tempfile

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Shards(IterableDataset):
    def __init__(self, folder):
        self.folder = folder

    def mine(self):
        info = get_worker_info()
        return sorted(glob.glob(os.path.join(self.folder, "*.pt")))[info.id :: info.num_workers]

    def rows(self):
        for path in self.mine():
            yield from torch.load(path)

    def __iter__(self):
        while True:
            yield from self.rows()


def main():
    signal.alarm(150)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(torch.rand(500, 9), f"{folder}/shard-0.pt")
        model = torch.nn.Linear(9, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step, rows in zip(range(200), DataLoader(Shards(folder), batch_size=10, num_workers=2), strict=False):
            optimizer.zero_grad()
            model(rows).mean().backward()
            optimizer.step()
            print("step", step, flush=True)


if __name__ == "__main__":
    main()
