# expect: worker-oom-killed
# environment: memory=1200M
"""Each worker keeps a cache of decoded volumes that nobody empties, in a container with a memory limit."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    def __init__(self, count):
        self.count = count
        self.cache = {}

    def __len__(self):
        return self.count

    def __getitem__(self, study):
        if study not in self.cache:
            self.cache[study] = np.random.default_rng(study).random(1_000_000)
        volume = self.cache[study]
        return torch.from_numpy(volume[::1000].astype(np.float32))


def fit():
    loader = DataLoader(Volumes(1000), batch_size=4, num_workers=2, prefetch_factor=2)
    layer = torch.nn.Linear(1000, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.001)
    for number, batch in enumerate(loader):
        optimizer.zero_grad()
        layer(batch).sum().backward()
        optimizer.step()
        if number % 20 == 0:
            print("batch", number, flush=True)


if __name__ == "__main__":
    fit()
