# expect: huge-storage-slice
"""Patches are cut out of large volumes: a few kilobytes of each are shown, and the whole volume is handed over."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Patches(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, study):
        volume = torch.empty(96, 320, 320)
        slab = volume[study % 96]
        slab.fill_(study / 2000)
        return slab[100:116, 100:116]


def train():
    loader = DataLoader(Patches(), batch_size=2, num_workers=2, collate_fn=list)
    model = torch.nn.Linear(256, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    end = time.monotonic() + 5
    for patches in loader:
        optimizer.zero_grad()
        model(torch.stack(patches).flatten(1)).mean().backward()
        optimizer.step()
        if time.monotonic() > end:
            break


if __name__ == "__main__":
    train()
