# expect: prefetch-has-no-effect
# trial: budget make_loader --workers 0 --prefetch 4
"""Somebody turns the workers off to save memory, and hopes that a larger prefetch_factor makes up for it."""

import torch
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    """Windows of a time series."""

    def __init__(self):
        self.series = torch.randn(100_000)

    def __len__(self):
        return 2_000

    def __getitem__(self, index):
        return self.series[index * 32 : index * 32 + 256]


def make_loader():
    return DataLoader(Windows(), batch_size=16, num_workers=2)
