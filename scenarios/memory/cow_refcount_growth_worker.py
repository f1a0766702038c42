# expect: cow-refcount-growth
# environment: memory=1250M
"""Three workers read through a dict of records; each also has a buffer of its own, and the kernel takes one of them."""

import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __init__(self, count):
        self.table = {number: (number, f"record {number} of the table", float(number)) for number in range(count)}
        self.buffer = None

    def __len__(self):
        return len(self.table)

    def __getitem__(self, number):
        if self.buffer is None:
            self.buffer = np.ones(14_000_000)
        first = number * 97 % (len(self.table) - 150)
        rows = [self.table[key] for key in range(first, first + 150)]
        return torch.tensor([float(sum(len(text) for _, text, _ in rows))])


loader = DataLoader(Records(1_000_000), batch_size=8, num_workers=3)
net = torch.nn.Linear(1, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-15)
for batch in loader:
    opt.zero_grad()
    net(batch).mean().backward()
    opt.step()
    time.sleep(0.01)
