# expect: healthy
"""Compute is the limit: the workers sleep most of the time, as they should."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Small(Dataset):
    def __len__(self):
        return 360

    def __getitem__(self, index):
        return torch.full((256,), float(index))


def main():
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(16)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    ends = time.monotonic() + 8  # however fast the machine is
    while time.monotonic() < ends:
        for x in DataLoader(Small(), batch_size=8, num_workers=2):
            for _ in range(4):
                optimizer.zero_grad()
                model(x.repeat(40, 1)).mean().backward()
                optimizer.step()


if __name__ == "__main__":
    main()
