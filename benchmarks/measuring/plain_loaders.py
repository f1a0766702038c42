"""Loaders whose limit is known: waiting for a store far away, unevenly, and handing over what is in memory."""

from __future__ import annotations

import time

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset


class FarAway(Dataset):
    """Every sample is fetched in 8 ms and needs hardly any processor; with `uneven`, one in ten takes 80 ms."""

    def __init__(self, uneven):
        self.uneven = uneven

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.08 if self.uneven and not (index * 7919) % 10 else 0.008)
        return torch.full((3, 32, 32), float(index))


def waiting():
    return DataLoader(FarAway(uneven=False), batch_size=4, shuffle=True, num_workers=2)


def uneven():
    return DataLoader(FarAway(uneven=True), batch_size=4, shuffle=True, num_workers=2)


def in_memory():
    return DataLoader(TensorDataset(torch.rand(20_000, 64)), batch_size=64, shuffle=True, num_workers=2)
