# expect: worker-segfault
"""Features lie in a mapped file, and a second job that writes the same cache cuts it short during the epoch."""

import os
import tempfile

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ROWS, WIDTH = 4096, 64


class Cached(IterableDataset):
    def __init__(self, path):
        self.features = np.memmap(path, dtype=np.float32, mode="r", shape=(ROWS, WIDTH))

    def __iter__(self):
        info = get_worker_info()
        for row in range(info.id, ROWS, info.num_workers):
            yield torch.from_numpy(self.features[row] * 2.0)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "features.bin")
    np.ones((ROWS, WIDTH), dtype=np.float32).tofile(path)
    net = torch.nn.Linear(WIDTH, 1)
    for step, rows in enumerate(DataLoader(Cached(path), batch_size=32, num_workers=1)):
        net.zero_grad()
        net(rows).mean().backward()
        for weight in net.parameters():
            weight.data -= 0.01 * weight.grad
        if step == 20:
            os.truncate(path, ROWS * WIDTH)
